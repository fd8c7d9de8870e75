// What the tests of metrics share with tests/fixtures/make_metrics.py.
#pragma once

#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace towers::test {

/// As draw() there.
inline std::uint64_t draw(std::uint64_t number, std::uint64_t index) {
    std::uint64_t x = (number << 40) + index + 1;
    x *= 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

/// Of a figure that is not defined, the file has null.
inline void check_close(const std::optional<double>& found, const nlohmann::json& expected) {
    CHECK(found.has_value() == !expected.is_null());
    if (found && !expected.is_null()) CHECK(std::abs(*found - expected.get<double>()) < 1e-6);
}

} // namespace towers::test
