// Measures what several ranks are worth together, and what the network between them costs.
#pragma once

#include "engine/bench/bench.h"
#include "engine/bench/ranks_report.h"
#include "engine/ranks/world.h"
#include "engine/replica/tower_ranks.h"

#include <optional>
#include <string>
#include <vector>

namespace towers {

/// All ranks call it at the same time, with the same options but for `towers`, which are each rank's own, and
/// `open`. `towers`: of all ranks, as in TrainerOptions, whose shares `options.shares` are. Rank 0 gets the
/// report; its caller sets `towers_version` and `launcher`. Throws PeerGone, and what a training throws.
std::optional<RanksReport> bench_ranks(const BenchOptions& options, World& world, const TowerRanks& ranks,
                                       const std::vector<std::string>& towers);

} // namespace towers
