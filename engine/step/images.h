// The part of a plan that makes a batch of images.
#pragma once

#include "engine/step/network.h"

namespace towers {

struct BatchTensors {
    TensorId images; ///< [batch, height, width, channels]
    TensorId labels; ///< uint32 [batch]
};

/// Adds the operations that make a batch of the examples, uint32 [batch, example_words], with the spec's data
/// pipeline. UsageError when the images do not fit it.
BatchTensors plan_batch(Plan& plan, const NetworkSpec& spec, TensorId examples);

} // namespace towers
