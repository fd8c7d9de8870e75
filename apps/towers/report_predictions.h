// What a run's network makes of the test pictures.
#pragma once

#include "apps/towers/report_run.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace towers {

struct PredictionOptions {
    std::vector<std::string> towers; ///< the devices' ids
    OpenOptions open;                ///< choose_precision() sets the precision
    PrecisionFlags products = {};
    unsigned batch = 128;
    unsigned pictures = 24; ///< samples, and as many mistakes
};

/// At most `count` records that show all classes, by their labels: one of each class in turn, at even
/// distances in the data; of some classes if there are more of these.
std::vector<std::uint32_t> samples_of(std::span<const std::uint32_t> labels, std::size_t count);

/// Evaluates the latest checkpoint on the run's test data: figures, which class is taken for which, some
/// pictures, and the mistakes with the highest loss. `{"absent": WHY}` if there is no checkpoint, the data
/// cannot be read, or the model has diverged. Throws InputError for a damaged checkpoint, and DeviceError.
nlohmann::json predictions_of(const ReportedRun& run, const PredictionOptions& options);

} // namespace towers
