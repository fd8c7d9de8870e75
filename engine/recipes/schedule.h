// How the learning rate changes during training. All schedules but plateau, and their warm-up, count the
// examples seen before the step, so they do not depend on the number of towers or the batch size.
#pragma once

#include "engine/config/attributes.h"
#include "engine/plan/plateau.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace towers {

/// How far the training is.
struct TrainingPosition {
    std::uint64_t step, examples; ///< done before this step
    std::uint64_t records;        ///< examples in an epoch
    unsigned tower_batch;         ///< examples per tower and step
    bool by_steps;                ///< count steps of tower_batch, however many towers share them
    double plateau = 1;           ///< Plateau::factor
};

struct Schedule {
    enum class Kind {
        constant,
        staircase,   ///< factor^floor(epoch / epochs)
        exponential, ///< factor^(epoch / epochs)
        piecewise,   ///< factors[i] from epoch boundaries[i] on
        cosine,      ///< from 1 down to `last` within `epochs`, half a period of a cosine
        one_cycle,   ///< up from `first` to 1 within `peak` of `epochs`, then down to `last`, both linearly
        plateau      ///< times `factor`, but not below `last`, when test passes get no better: after_pass()
    } kind = Kind::constant;
    double factor = 1, epochs = 1, first = 0, last = 0, peak = 0;
    std::vector<double> boundaries, factors;
    unsigned patience = 0, cooldown = 0; ///< test passes, of plateau
    double threshold = 0;                ///< by which a better pass is better
    bool absolute = false;               ///< the threshold is no part of the best value
    double warm_up = 0;                  ///< epochs within which the rate grows linearly from 0

    /// The factor of the initial learning rate.
    double factor_at(const TrainingPosition& position) const;
};

/// What a plateau schedule remembers after another test pass at this step, as PyTorch's ReduceLROnPlateau.
/// `value`: of the metric; none is never better. A pass that `before` knows already changes nothing.
Plateau after_pass(const Schedule& schedule, Plateau before, std::uint64_t step, std::optional<double> value,
                   bool lower_is_better);

/// Reads [schedule]. Throws UsageError for missing, wrong or unknown keys.
Schedule read_schedule(Attributes attributes);

} // namespace towers
