// A file with a step that diverged: everything needed to repeat it on any device without the data set.
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

/// The result of repeating a step, and the device.
struct Finding {
    std::string device; ///< its id
    Replay replay;
};

/// A diverged step, and what the run found when it repeated it.
struct DivergedStep {
    Recipe recipe;
    std::size_t tower;
    std::string device; ///< its id
    LoneStep step;
    Precision precision = Precision::fp32; ///< OpenOptions'
    bool round_operands = false;           ///< likewise
    std::optional<Finding> found;          ///< none: it could not be repeated
};

/// `done again on cpu, the step is first not finite in tensor ...`, or that it stays finite
std::string describe(const Finding& finding);

/// The step in which the trainer has just diverged. `data`: the training's data set.
DivergedStep diverged_step(Trainer& trainer, const TowerStep& of, const DataSource& data);

/// Repeats the step on the tower's own device, or on `cpu` if that fails. Throws DeviceError, and UsageError
/// if the step is too large to compute at once.
Finding examine(const DivergedStep& diverged, const TrainerOptions& options);

/// A checkpoint of the state before the step with more tensors, and more metadata: docs/runs.md lists them.
TensorFile to_tensors(const DivergedStep& diverged, const CheckpointOrigin& origin);

/// The inverse of to_tensors(). Throws InputError, which names the path, if the file is damaged or another
/// kind of file.
DivergedStep read_diverged(const std::filesystem::path& path);

} // namespace towers
