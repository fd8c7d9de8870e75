// What a run's network makes of the test pictures.
#pragma once

#include "apps/towers/report_run.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace towers {

struct PredictionOptions {
    std::vector<std::string> towers; ///< the devices' ids
    OpenOptions open;
    unsigned batch = 128;
    unsigned pictures = 24; ///< samples, and as many mistakes
};

/// Evaluates the latest checkpoint on the run's test data: figures, which class is taken for which, some
/// pictures, and the mistakes with the highest loss. `{"absent": WHY}` if there is no checkpoint, the data
/// cannot be read, or the model has diverged. Throws InputError for a damaged checkpoint, and DeviceError.
nlohmann::json predictions_of(const ReportedRun& run, const PredictionOptions& options);

} // namespace towers
