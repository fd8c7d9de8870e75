// Measures equal work on several devices in turn.
#pragma once

#include "backends/backend.h"
#include "engine/bench/report.h"
#include "engine/recipes/recipe.h"

#include <functional>
#include <string>
#include <vector>

namespace towers {

struct BenchOptions {
    std::vector<std::string> towers;   ///< device ids; each device is measured alone once
    bool together = false;             ///< also measure all towers in one run
    bool subsets = false;              ///< with `together`: also measure subsets
    std::vector<double> shares;        ///< of the towers in that run; empty: equal
    BenchSettings settings;            ///< `recipe` without its changes
    std::vector<std::string> set = {}; ///< changes to the recipe
    OpenOptions open;                  ///< with the threads of `settings`
    /// Called with the name of the next measurement; may be empty.
    std::function<void(const std::string&)> progress;
};

/// The recipe for measuring on the drawn shapes, which may lack the classes to which it gives weights by
/// name: then they are balanced, which takes the same time.
Recipe recipe_of(const BenchOptions& options);

/// Measures on the drawn shapes. Each repetition runs on every device before the next one begins, so that a
/// disturbance of the machine affects all devices. Leaves out what fails before the first repetition, such as
/// for want of memory. Throws DeviceError if nothing is left or a device fails later, and UsageError if the
/// batch or the shares do not fit. The caller sets BenchReport::towers_version.
BenchReport run_bench(const BenchOptions& options);

} // namespace towers
