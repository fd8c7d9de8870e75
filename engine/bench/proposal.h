// Predicts, from measurements of each tower alone, which towers should share a step and how.
#pragma once

#include "engine/shares/load.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

/// Measurements of a tower alone.
struct SoloTower {
    std::string device;
    double part = 1; ///< of the device, kept busy; towers whose parts exceed 1 together slow each other
    LoadModel step;  ///< of a whole step
    double copy_seconds = 0; ///< of copying parameters and gradients, which a single tower need not do
};

struct StepModel {
    std::vector<SoloTower> towers;
    unsigned global = 0, group = 1; ///< examples in a step, and in a group, which stays on one tower
    double beyond_seconds = 0;      ///< of a step with several towers after its slowest tower's own time
};

/// Some of the towers, in ascending order, and their shares of a step.
struct Subset {
    std::vector<std::size_t> towers;
    std::vector<unsigned> shares;
    bool operator==(const Subset&) const = default;
};

double predicted_seconds(const StepModel& model, const Subset& subset);

/// The shares that make a step of these towers shortest, each at least one group. Throws UsageError if there
/// are more towers than groups.
Subset with_best_shares(const StepModel& model, std::vector<std::size_t> towers);

/// The subset with the shortest predicted step: leaves out towers that would slow it down.
Subset propose(const StepModel& model);

/// Every set of devices with its best shares, the fastest first: 2^n - 1 sets for n towers on n devices. Sets
/// with the same devices count once.
std::vector<Subset> rank_subsets(const StepModel& model);

} // namespace towers
