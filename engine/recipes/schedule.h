// How the learning rate changes during training. All schedules and their warm-up count the examples seen
// before the step, so they do not depend on the number of towers or the batch size.
#pragma once

#include "engine/config/attributes.h"

#include <cstdint>
#include <vector>

namespace towers {

/// How far the training is.
struct TrainingPosition {
    std::uint64_t step, examples; ///< done before this step
    std::uint64_t records;        ///< examples in an epoch
    unsigned tower_batch;         ///< examples per tower and step
    bool by_steps;                ///< count steps of tower_batch, however many towers share them
};

struct Schedule {
    enum class Kind {
        constant,
        staircase,   ///< factor^floor(epoch / epochs)
        exponential, ///< factor^(epoch / epochs)
        piecewise,   ///< factors[i] from epoch boundaries[i] on
        cosine,      ///< from 1 down to `last` within `epochs`, half a period of a cosine
        one_cycle    ///< up from `first` to 1 within `peak` of `epochs`, then down to `last`, both linearly
    } kind = Kind::constant;
    double factor = 1, epochs = 1, first = 0, last = 0, peak = 0;
    std::vector<double> boundaries, factors;
    double warm_up = 0; ///< epochs within which the rate grows linearly from 0

    /// The factor of the initial learning rate.
    double factor_at(const TrainingPosition& position) const;
};

/// Reads [schedule]. Throws UsageError for missing, wrong or unknown keys.
Schedule read_schedule(Attributes attributes);

} // namespace towers
