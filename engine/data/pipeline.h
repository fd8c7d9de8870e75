// A recipe's data pipeline: what happens to the examples on the device before the network sees them.
#pragma once

#include "engine/config/attributes.h"
#include "engine/data/augmentation.h"

namespace towers {

struct Pipeline {
    /// The CIFAR-10 tutorial's own: random crop, flip, brightness, contrast; each image standardized.
    /// Evaluation takes the centre crop.
    bool tutorial = false;
    Augmentation training, evaluation; ///< otherwise
};

/// Reads [pipeline]: kind; for kind "augment" also values, mean, deviation, and what happens to the examples
/// in [pipeline.train] and [pipeline.evaluate]. UsageError for what is missing, wrong or unknown.
Pipeline read_pipeline(Attributes attributes);

} // namespace towers
