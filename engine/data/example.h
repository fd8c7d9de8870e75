// One example of a batch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towers {

/// As the kernels read it (shaders/example.h). A Sampler chooses record and epoch, a ResidentFeed knows slot
/// and label.
struct Example {
    std::uint32_t slot = 0;   ///< where a device holds the image: memory goes by it
    std::uint32_t record = 0; ///< number in the data set: what is random goes by it and the epoch
    std::uint32_t epoch = 0;  ///< pass over the data, or over its class: see Sampler
    std::uint32_t label = 0;
    bool operator==(const Example&) const = default;
};

/// A tensor of examples has the shape [batch, example_words].
constexpr std::size_t example_words = sizeof(Example) / sizeof(std::uint32_t);

} // namespace towers
