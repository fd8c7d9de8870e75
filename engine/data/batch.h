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
    /// As BatchWeights gives them; empty: no loss head has class weights. A slice has the global batch's.
    std::span<const float> class_weights = {};

    std::size_t image_bytes() const { return images.size() / examples.size(); } ///< of one image
    Batch slice(std::size_t begin, std::size_t count) const {
        return {first + begin, examples.subspan(begin, count),
                images.empty() ? images : images.subspan(begin * image_bytes(), count * image_bytes()),
                class_weights};
    }
};

} // namespace towers
