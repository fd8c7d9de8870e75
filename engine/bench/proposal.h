// Which towers should share a step, and how, predicted from what each of them does alone.
#pragma once

#include "engine/balance/load.h"

#include <cstddef>
#include <string>
#include <vector>

namespace towers {

/// What is known of a tower that has worked alone.
struct SoloTower {
    std::string device;
    double part =
        1; ///< of the device that it keeps busy; towers that want more than all of it slow each other
    LoadModel step; ///< a whole step
    double copy_seconds =
        0; ///< of the variables and their gradients, which only one of several towers copies
};

struct StepModel {
    std::vector<SoloTower> towers;
    unsigned global = 0, group = 1; ///< examples of a step; of a group that stays in one tower
    double beyond_seconds = 0;      ///< that a step of several towers takes beyond its slowest
};

/// Some of a model's towers, in ascending order, and the examples that each of them takes of a step.
struct Subset {
    std::vector<std::size_t> towers;
    std::vector<unsigned> shares;
    bool operator==(const Subset&) const = default;
};

double predicted_seconds(const StepModel& model, const Subset& subset);

/// These towers with the shares that make a step shortest, each with a group at least. Throws UsageError when
/// there are more towers than groups.
Subset with_best_shares(const StepModel& model, std::vector<std::size_t> towers);

/// What the model takes for the fastest of all: towers that would slow a step are left out.
Subset propose(const StepModel& model);

/// Every set of devices with its best shares, the fastest first. 2^n - 1 for n towers on as many devices;
/// sets of the same devices count once.
std::vector<Subset> rank_subsets(const StepModel& model);

} // namespace towers
