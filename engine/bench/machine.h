// Facts about the machine that a report names.
#pragma once

#include "engine/bench/report.h"

namespace towers {

/// Processors that this process may use.
unsigned usable_processors();

BenchMachine describe_machine();

/// Now in UTC: `2026-11-21T15:04:05Z`.
std::string utc_date();

/// The most memory that this process has had resident, in bytes.
std::uint64_t peak_memory_bytes();

} // namespace towers
