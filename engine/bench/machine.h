// Facts about the machine for a report.
#pragma once

#include "engine/bench/report.h"

namespace towers {

BenchMachine describe_machine();

/// The time in UTC: `2026-11-21T15:04:05Z`.
std::string utc_date();

/// The peak resident memory of this process, in bytes.
std::uint64_t peak_memory_bytes();

} // namespace towers
