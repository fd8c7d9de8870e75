#pragma once

#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace towers {

/// The most elements of a tensor: kernels count in 32 bits, some of them signed.
constexpr std::size_t most_elements = INT32_MAX;

/// The outermost axis first; activations are [batch, height, width, channels].
using TensorShape = std::vector<std::size_t>;

inline std::size_t elements_of(const TensorShape& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::size_t(1), std::multiplies<>());
}

/// One example's activation: [height, width, channels].
struct Shape {
    unsigned height = 1, width = 1, channels = 1;
    constexpr std::size_t elements() const { return std::size_t(height) * width * channels; }
    bool operator==(const Shape&) const = default;
};

/// `[32, 32, 3]`
inline std::string to_string(const Shape& shape) {
    return fmt::format("[{}, {}, {}]", shape.height, shape.width, shape.channels);
}

} // namespace towers
