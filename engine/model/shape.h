#pragma once

#include <cstddef>

namespace towers {

/// One example's activation: [height, width, channels].
struct Shape {
    unsigned height = 1, width = 1, channels = 1;
    std::size_t elements() const { return std::size_t(height) * width * channels; }
    bool operator==(const Shape&) const = default;
};

} // namespace towers
