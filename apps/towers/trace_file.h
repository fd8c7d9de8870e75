// Writes the file that --trace names.
#pragma once

#include "engine/trace/trace.h"

#include <memory>
#include <string>

namespace towers {

struct TrainFlags;

/// A run's trace and its file.
struct TraceFile {
    std::string path;             ///< empty without --trace
    std::shared_ptr<Trace> trace; ///< null without --trace and --log-placement
};

/// Throws UsageError before the run if the file cannot be written or belongs to the run, since an error after
/// the run would waste it.
TraceFile make_trace(const TrainFlags& flags);

/// Returns whole lines for the user. Throws InputError. All devices must be closed, since the trace is
/// complete only then.
std::string write_trace(const TraceFile& file);

/// The same for a run that fails, when a trace is most useful: prints the lines, and only warns if the trace
/// cannot be written, because the run's own failure matters more. Does nothing without --trace.
void write_trace_of_failed(const TraceFile& file);

} // namespace towers
