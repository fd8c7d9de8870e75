// Counts of things in messages.
#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>

namespace towers {

/// `1 example`, `2 examples`
template<class Number>
std::string count_of(Number count, std::string_view thing) {
    return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

} // namespace towers
