// The part of a plan that makes a batch of images.
#pragma once

#include "engine/data/pipeline.h"
#include "engine/plan/plan.h"
#include "engine/plan/shape.h"

#include <cstdint>

namespace towers {

/// The device's records, planes of bytes, and what to make of a batch of them.
struct ImagesSpec {
    const Pipeline* pipeline;
    ImageSize stored;
    std::size_t slots; ///< records that the device has room for
    Shape image;       ///< the network's input
    unsigned batch;
    std::uint64_t seed;
    bool distort; ///< else the pipeline of evaluation
};

struct BatchTensors {
    TensorId images; ///< [batch, height, width, channels]
    TensorId labels; ///< uint32 [batch]
};

/// Adds the operations that make a batch of the examples, uint32 [batch, example_words]. UsageError when the
/// images do not fit the pipeline.
BatchTensors plan_images(Plan& plan, const ImagesSpec& spec, TensorId examples);

} // namespace towers
