// What --log-placement prints: each operation of the step, where and how it runs, and how long it took.
#pragma once

#include "engine/observers/placement.h"
#include "engine/trace/trace.h"

#include <string>
#include <vector>

namespace towers {

/// The placements of a run's towers, with what the trace calls these.
struct PlacementLog {
    struct Table {
        Placement placement;
        std::string title;                  ///< `tower_0: cpu (AMD EPYC), 128 examples`
        std::vector<std::string> processes; ///< of its towers in the trace
    };
    std::vector<Table> tables;
};

/// See placements().
PlacementLog placement_log(const Trainer& trainer, const std::vector<unsigned>& shares);

/// A table of the operations for each kind of tower, in the order of the step.
std::string placement_text(const PlacementLog& log);

/// What part of the devices' work each operation took in the steps that the trace has kept, the longest
/// first. All devices must be closed, since the trace is complete only then.
std::string placement_times(const PlacementLog& log, const Trace& trace);

} // namespace towers
