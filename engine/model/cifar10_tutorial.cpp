#include "engine/model/cifar10_tutorial.h"

namespace towers {

Model cifar10_tutorial(const Cifar10TutorialWidths& widths) {
    const LocalResponseNorm norm{.radius = 4, .bias = 1.0f, .alpha = 0.001f / 9.0f, .beta = 0.75f};
    const MaxPool pool{.window = 3, .stride = 2};
    return {
        .name = "cifar10-tutorial",
        .input = {24, 24, 3},
        .layers =
            {
                {"conv1", {"images"}, Conv2d{widths.conv1, 5, 1, true, {.stddev = 5e-2f, .bias = 0.0f}}},
                {"pool1", {"conv1"}, pool},
                {"norm1", {"pool1"}, norm},
                {"conv2", {"norm1"}, Conv2d{widths.conv2, 5, 1, true, {.stddev = 5e-2f, .bias = 0.1f}}},
                {"norm2", {"conv2"}, norm},
                {"pool2", {"norm2"}, pool},
                {"local3", {"pool2"}, Dense{widths.local3, true, {0.04f, 0.1f, 0.004f}}},
                {"local4", {"local3"}, Dense{widths.local4, true, {0.04f, 0.1f, 0.004f}}},
                {"softmax_linear", {"local4"}, Dense{10, false, {1.0f / float(widths.local4), 0.0f, 0.0f}}},
            },
    };
}

} // namespace towers
