// `towers bench --variants`: how the ways to run a kernel compare.
#pragma once

#include "engine/bench/bench.h"

#include <string>

namespace towers {

/// Measures on each of the towers' devices, and prints. Throws UsageError if nothing matches the pattern, and
/// DeviceError.
void bench_variants(const BenchOptions& options, const std::string& pattern);

} // namespace towers
