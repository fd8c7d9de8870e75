// The settings of runs and what differs between them.
#pragma once

#include "apps/towers/report_run.h"

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace towers {

/// The values of a TOML text by their places, `network.layers.conv1.filters`: tables in a list that have a
/// name go by it. The text is sound.
std::map<std::string, std::string> flatten_toml(const std::string& text);

/// Each run's settings: `{"name", "values"}` for each, with an entry per run, null where a run has none;
/// likewise the places in the recipes whose values differ, at most `most`, and how many there are.
nlohmann::json settings_table(std::span<const ReportedRun> runs);
nlohmann::json recipe_differences(std::span<const ReportedRun> runs, std::size_t most);

} // namespace towers
