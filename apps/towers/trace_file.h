// The file that --trace names.
#pragma once

#include "engine/trace/trace.h"

#include <memory>
#include <string>

namespace towers {

struct TrainFlags;

/// A run's trace and where it goes.
struct TraceFile {
    std::string path;
    std::shared_ptr<Trace> trace; ///< null without --trace
};

/// Throws UsageError when the file cannot be written or is one of the run's own: found only after the run,
/// that would cost the run.
TraceFile make_trace(const TrainFlags& flags);

/// Returns what the user should know of it, in whole lines. Throws InputError. Every device must be closed,
/// since only then the trace has all that it did.
std::string write_trace(const TraceFile& file);

/// The same for a run that fails, where a trace is wanted above all: prints the lines, and only warns when
/// the trace cannot be written, because the run's own failure is what counts. Does nothing without --trace.
void write_trace_of_failed(const TraceFile& file);

} // namespace towers
