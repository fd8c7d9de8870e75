// The step of one tower, done again alone to find the first tensor that is infinite or NaN.
#pragma once

#include "backends/device.h"
#include "engine/data/example.h"
#include "engine/data/source.h"
#include "engine/plan/plan.h"
#include "engine/plan/state.h"
#include "engine/recipes/recipe.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// What a tower did in a step, with all that it takes to do it again.
struct LoneStep {
    TrainingState before;
    double learning_rate = 0;
    std::uint64_t seed = 0;
    bool distort = true;
    unsigned global_batch = 0;        ///< when the examples are all of these, the step has an update
    std::vector<Example> examples;    ///< each with the slot of its own place here
    ImageSize stored;                 ///< of the images
    std::vector<std::uint8_t> images; ///< of the examples, as a DataSource reads them
};

/// A tensor with numbers that are infinite or NaN.
struct NotFinite {
    std::string tensor; ///< as the plan names it: `conv2`
    TensorShape shape;
    std::string operation; ///< that wrote it, such as `conv2 forward`; empty: it came so with the state
    std::string kernel;    ///< or `copy`
    std::size_t count = 0; ///< of such numbers
    std::vector<std::size_t> index; ///< of the first one
    std::string value;              ///< of that: `inf`, `-inf` or `nan`
};

struct Replay {
    std::optional<NotFinite> first; ///< none: every number stays finite
    bool diverges = false;          ///< the loss or a gradient is not finite
};

/// Does the step level by level, until it diverges or ends. Throws DeviceError, and UsageError when the step
/// is too large for one tower.
Replay replay(Device& device, const Recipe& recipe, const LoneStep& step);

/// `tensor 'conv2' of conv2 forward, 3 of 4096 numbers, the first at [0, 1, 2, 3]: inf`
std::string describe(const NotFinite& found);

} // namespace towers
