// A report of `towers bench` as text for a terminal.
#pragma once

#include "engine/bench/compare.h"
#include "engine/bench/ranks_report.h"
#include "engine/bench/report.h"

#include <string>

namespace towers {

std::string format_report(const BenchReport& report);

std::string format_report(const RanksReport& report);

/// `source` is the name of the earlier report.
std::string format_comparison(const BenchComparison& comparison, const std::string& source);

} // namespace towers
