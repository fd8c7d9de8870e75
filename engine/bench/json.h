// A report as JSON; apps/towers/bench.schema.json describes it.
#pragma once

#include "engine/bench/ranks_report.h"
#include "engine/bench/report.h"

#include <string>
#include <string_view>

namespace towers {

std::string to_json(const BenchReport& report);

/// Of several ranks; docs/measuring.md describes it.
std::string to_json(const RanksReport& report);

/// Messages call the text `source`. Throws InputError if it is not a report or has another schema.
BenchReport report_from_json(std::string_view text, const std::string& source);

} // namespace towers
