#pragma once

#include "engine/model/model.h"

namespace towers {

/// The network of TensorFlow's CIFAR-10 tutorial: 1,068,298 parameters with the default widths.
struct Cifar10TutorialWidths {
    unsigned conv1 = 64, conv2 = 64, local3 = 384, local4 = 192;
};
Model cifar10_tutorial(const Cifar10TutorialWidths& widths = {});

} // namespace towers
