// The drift between the trainings of two devices.
#pragma once

#include "engine/train/trainer.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace towers {

/// The drift after a step of both trainings, which started alike.
struct DriftStep {
    std::uint64_t step;         ///< counted from 0
    std::array<float, 2> loss;  ///< of the parameters before the update
    double relative_loss;       ///< |a - b| over the larger of |a| and |b|
    double relative_parameters; ///< ||a - b|| over the larger of ||a|| and ||b||, after the update
};

struct Drift {
    std::vector<DriftStep> steps;
    double relative_averages = 0;        ///< of the moving averages at the end, like relative_parameters
    std::array<std::string, 2> diverged; ///< why a side stopped before the last step; empty: it did not
};

/// Trains on each of two devices alone, from the same start, with these options except the towers. Stops
/// early when a side's loss or gradient is infinite or NaN. Calls `observe` after every step. Throws
/// DeviceError.
Drift measure_drift(const std::array<std::string, 2>& devices, const Recipe& recipe,
                    const TrainerOptions& options, const DataSource& data, std::uint64_t steps,
                    const std::function<void(const DriftStep&)>& observe);

} // namespace towers
