// Writes reports of runs as one self-contained HTML page.
#pragma once

#include "apps/towers/report_predictions.h"
#include "apps/towers/report_run.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The page about these runs, side by side. `predictions`: empty, or what predictions_of() says of each.
std::string report_page(std::span<const ReportedRun> runs, std::span<const nlohmann::json> predictions);

/// Writes the page about the run in this folder into it, for `train --report`. `options`: null leaves out the
/// predictions, and the page says why where a device fails. Returns the page's path. Throws InputError.
std::string write_report(const std::string& folder, const PredictionOptions* options);

} // namespace towers
