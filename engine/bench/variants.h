// Times all the ways in which a device can run the launches of a step.
#pragma once

#include "backends/backend.h"
#include "engine/recipes/recipe.h"
#include "engine/tuning/measure.h"

#include <string>
#include <vector>

namespace towers {

/// A distinct launch of the step.
struct LaunchVariants {
    std::string name;          ///< of the first operation: `conv2 forward`
    std::string key;           ///< see key_of()
    unsigned times;            ///< that the step has it
    std::vector<Measured> all; ///< empty: it cannot be measured
};

/// Those of the launches of a lone tower's step with `batch` examples whose kernel or operation matches the
/// shell pattern. Throws DeviceError.
std::vector<LaunchVariants> measure_variants(const std::string& device, const OpenOptions& open,
                                             const Recipe& recipe, unsigned batch,
                                             const std::string& pattern);

} // namespace towers
