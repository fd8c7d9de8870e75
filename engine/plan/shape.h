#pragma once

#include <cstddef>
#include <cstdint>

namespace towers {

/// The most elements of a tensor: kernels count in 32 bits, some of them signed.
constexpr std::size_t most_elements = INT32_MAX;

/// One example's activation: [height, width, channels].
struct Shape {
    unsigned height = 1, width = 1, channels = 1;
    std::size_t elements() const { return std::size_t(height) * width * channels; }
    bool operator==(const Shape&) const = default;
};

} // namespace towers
