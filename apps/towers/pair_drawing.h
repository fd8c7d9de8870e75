// A picture of several devices at work on one run: when each computes, copies and waits, their shares, and
// the rate together beside each alone.
#pragma once

#include "apps/towers/report_run.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// What a stretch of time was spent on.
enum class Spent { computing, copying, waiting, averaging };

struct Stretch {
    Spent on;
    double begin, end; ///< milliseconds from the beginning of the shown steps
};

/// A tower or the host in a trace.
struct TracedPart {
    std::string name;
    std::vector<Stretch> stretches;
};

/// Some steps of a trace, from the file that `train --trace` writes.
struct TracedSteps {
    std::uint64_t first = 0, last = 0;
    double milliseconds = 0;
    std::vector<TracedPart> towers;
    std::vector<Stretch> host;
};

/// Reads the last `steps` steps in which every tower computes, or the last ones if there are none. Throws
/// InputError if the file cannot be read or is no such trace.
TracedSteps read_trace(const std::filesystem::path& file, std::size_t steps);

/// An SVG picture, readable on light and on dark pages. `alone`: runs of the same devices by themselves.
/// InputError if the run has kept no times of several towers.
std::string draw_pair(const ReportedRun& run, std::span<const ReportedRun> alone, const TracedSteps& trace);

} // namespace towers
