// The measurements of `towers bench --together` by several ranks as data. Names mean the same as in report.h.
#pragma once

#include "engine/bench/report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// One rank's towers as a run of their own, while the other ranks do the same.
struct RankFigures {
    std::string host;
    std::vector<std::string> towers;
    std::vector<unsigned> shares; ///< of its towers, as in the run of all ranks
    Spread examples_per_s, step_us;
};

/// What a step sends to the other ranks and gets from them: gradients, and new parameters.
struct ExchangeFigures {
    double sent_bytes = 0; ///< by rank 0; it receives as many
    Spread step_us;        ///< of a step that does nothing else but update the model
    Spread visible_us; ///< by which a step of all is longer than the slowest rank's own; noise may make it
                       ///< negative
    double hidden = 0; ///< part of the median of `step_us` that is not visible, 0 to 1
};

/// More machines, each with one rank such as the measured ones, on the same network; see scale_model.h.
struct ScaleFigures {
    unsigned machines = 0;
    double step_us = 0, examples_per_s = 0, share_of_sum = 0;
};

struct RanksReport {
    static constexpr int schema = 1;
    std::string towers_version, date;
    BenchMachine machine; ///< of rank 0
    BenchSettings settings;
    std::string launcher; ///< of the ranks
    std::vector<RankFigures> ranks;
    std::uint64_t steps = 0;        ///< per repetition
    Spread examples_per_s, step_us; ///< of the run of all ranks
    Spread share_of_sum;            ///< of the sum of the ranks' own rates
    ExchangeFigures exchange;
    std::optional<std::vector<ScaleFigures>> predicted; ///< absent: ranks share a machine
};

} // namespace towers
