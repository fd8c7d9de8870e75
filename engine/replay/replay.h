// Repeats one tower's step alone, to find the first tensor with an infinity or NaN.
#pragma once

#include "backends/device.h"
#include "engine/data/batch.h"
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

/// A tower's part of a step, with everything needed to repeat it.
struct LoneStep {
    TrainingState before;
    double learning_rate = 0;
    std::uint64_t seed = 0;
    bool distort = true;
    unsigned global_batch = 0;        ///< if the examples are all of these, the step includes the update
    KeptBatch batch;                  ///< its examples have their own places in all() as slots
    ImageSize stored;                 ///< of the images
    std::vector<std::uint8_t> images; ///< of all() examples, as a DataSource reads them
};

/// A tensor with numbers that are infinite or NaN.
struct NotFinite {
    std::string tensor; ///< as the plan names it: `conv2`
    TensorShape shape;
    std::string operation; ///< that wrote it, such as `conv2 forward`; empty: the state already had it
    std::string kernel;    ///< or `copy`
    std::size_t count = 0; ///< how many numbers are not finite
    std::vector<std::size_t> index; ///< of the first such number
    std::string value;              ///< of the first: `inf`, `-inf` or `nan`
};

struct Replay {
    std::optional<NotFinite> first; ///< none: every number stays finite
    bool diverges = false;          ///< the loss or a gradient is not finite
};

/// Runs the step level by level until it diverges or ends. Throws DeviceError, and UsageError if the step is
/// too large for one tower.
Replay replay(Device& device, const Recipe& recipe, const LoneStep& step);

/// `tensor 'conv2' of conv2 forward, 3 of 4096 numbers, the first at [0, 1, 2, 3]: inf`
std::string describe(const NotFinite& found);

} // namespace towers
