// The examples of a step.
#pragma once

#include "engine/data/example.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace towers {

/// A global batch, or a share of one.
struct Batch {
    std::uint64_t first = 0; ///< position of its first example in the order of the examples
    std::span<const Example> examples = {};
    /// Of the examples, as DataSource::read() gives them. Empty: devices hold the images, in the examples'
    /// slots.
    std::span<const std::uint8_t> images = {};

    std::size_t image_bytes() const { return images.size() / examples.size(); } ///< of one image
    Batch slice(std::size_t begin, std::size_t count) const {
        if (images.empty()) return {first + begin, examples.subspan(begin, count), {}};
        return {first + begin, examples.subspan(begin, count),
                images.subspan(begin * image_bytes(), count * image_bytes())};
    }
};

} // namespace towers
