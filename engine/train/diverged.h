// A step that diverged, in a file: all that it takes to do it again on any device, without the data set.
#pragma once

#include "engine/data/source.h"
#include "engine/replay/replay.h"
#include "engine/run/safetensors.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace towers {

/// What doing a step again has shown, and where.
struct Finding {
    std::string device; ///< its id
    Replay replay;
};

/// A diverged step and what was found of it at once.
struct DivergedStep {
    Recipe recipe;
    std::size_t tower;
    std::string device; ///< its id
    LoneStep step;
    std::optional<Finding> found; ///< none: it has not been done again
};

/// `done again on cpu, the step is first not finite in tensor ...`, or that it stays finite
std::string describe(const Finding& finding);

/// The step that the trainer has just failed to take. `data`: of the training.
DivergedStep diverged_step(Trainer& trainer, const TowerStep& of, const DataSource& data);

/// Does the step again on the tower's own device, or on `cpu` where that fails. Throws DeviceError, and
/// UsageError when the step is too large to be done at once.
Finding examine(const DivergedStep& diverged, const TrainerOptions& options);

/// A checkpoint of the state before the step with more tensors, and more metadata: docs/runs.md lists them.
TensorFile to_tensors(const DivergedStep& diverged, const CheckpointOrigin& origin);

/// Reads what to_tensors() made. Throws InputError that names the path when the file is damaged or something
/// else.
DivergedStep read_diverged(const std::filesystem::path& path);

} // namespace towers
