// Equal work on several devices, measured in turn.
#pragma once

#include "backends/backend.h"
#include "engine/bench/report.h"

#include <functional>
#include <string>
#include <vector>

namespace towers {

struct BenchOptions {
    std::vector<std::string> towers;   ///< device ids; each device is measured alone once
    bool together = false;             ///< also measure all towers in one run
    bool subsets = false;              ///< then also subsets of them
    std::vector<double> shares;        ///< of the towers in that run; equal when empty
    BenchSettings settings;            ///< `recipe` without its changes
    std::vector<std::string> set = {}; ///< changes to the recipe
    OpenOptions open;                  ///< its threads as in `settings`
    /// Called with what is measured next; may be empty.
    std::function<void(const std::string&)> progress;
};

/// Measures on the drawn shapes. Each repetition runs on every device before the next one begins, so that
/// what slows the machine for a while slows all. Leaves out what a device fails at before the first
/// repetition, such as for want of memory. Throws DeviceError when nothing is left or a device fails later,
/// and UsageError when the batch or the shares do not fit. Leaves BenchReport::towers_version to the caller.
BenchReport run_bench(const BenchOptions& options);

} // namespace towers
