// Steps, log, metrics and checkpoints until the training is done or told to stop.
#pragma once

#include "engine/run/run_directory.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"

#include <atomic>
#include <functional>

namespace towers {

struct LoopOptions {
    std::uint64_t steps;      ///< updates in all, those of an earlier part of the run included
    std::uint64_t save_every; ///< steps between checkpoints; 0: only at the end
    unsigned keep;            ///< checkpoints; 0: all
    std::uint64_t log_every;  ///< steps between lines of the log and of metrics.jsonl
    CheckpointOrigin origin;
    unsigned global_batch;
};

struct Progress {
    StepReport report;
    bool log;                   ///< this step is due for the log
    double examples_per_second; ///< since the last line of the log
    double seconds_per_step;
};

enum class Ending { finished, stopped };

/// Saves where the training stands. A new run begins with this, so that one killed before its first
/// checkpoint is due can go on.
void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options);

/// A run's checkpoint becomes the trainer's state. Throws InputError when it is of another recipe, seed or
/// data set. Changes no file.
void resume(Trainer& trainer, const FoundCheckpoint& checkpoint, const CheckpointOrigin& origin);

/// Makes the run directory stand where the trainer does: later checkpoints are set aside, metrics of later
/// steps go. Gives the folder that RunDirectory::set_aside_after() made.
std::optional<std::filesystem::path> rewind(RunDirectory& run, const Trainer& trainer);

/// Saves a checkpoint at the end, also when `stop` becomes true: then after the step under way. Throws
/// Diverged with the last checkpoint whose loss was finite. With several towers saves the state of before the
/// step on DeviceError, and throws it on. `observe` hears of every step.
Ending train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
             const std::function<void(const Progress&)>& observe);

} // namespace towers
