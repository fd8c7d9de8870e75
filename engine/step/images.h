// The part of a plan that makes a batch of images.
#pragma once

#include "engine/step/network.h"

namespace towers {

struct BatchTensors {
    TensorId images; ///< [batch, height, width, channels]
    TensorId labels; ///< uint32 [batch]
};

/// The examples whose images plan_batch() makes to mix them: the batch's, and their partners where these may
/// be on other towers or in other micro-batches.
unsigned examples_to_make(const NetworkSpec& spec);

/// Adds the operations that make a batch of the examples, uint32 [batch, example_words], with the spec's data
/// pipeline. UsageError when the images do not fit it. `mixes`, uint32 [batch, mix_words]: how they are
/// mixed; then there are examples_to_make(). Without it, nothing is mixed.
BatchTensors plan_batch(Plan& plan, const NetworkSpec& spec, TensorId examples, TensorId mixes = {});

} // namespace towers
