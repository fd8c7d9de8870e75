// Steps, log, metrics and checkpoints until the training is done or told to stop.
#pragma once

#include "engine/run/run_directory.h"
#include "engine/train/checkpoint.h"
#include "engine/train/trainer.h"

#include <atomic>
#include <functional>

namespace towers {

struct LoopOptions {
    std::uint64_t steps;      ///< updates in all, including an earlier part of the run
    std::uint64_t save_every; ///< steps between checkpoints; 0: only at the end
    unsigned keep;            ///< checkpoints; 0: all
    std::uint64_t
        log_every; ///< steps between lines of the log and of metrics.jsonl; each change of shares has one too
    CheckpointOrigin origin;
    unsigned global_batch;
    const DataSource* data = nullptr; ///< of the training, to keep a step that diverges with its examples;
                                      ///< null: it is not kept
};

struct Progress {
    StepReport report;
    bool log;                   ///< this step is due for the log
    double examples_per_second; ///< since the last line of the log
    double seconds_per_step;
};

enum class Ending { finished, stopped };

/// Saves the state of the training. A new run starts with this, so that it can go on even if it is killed
/// before its first checkpoint is due.
void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options);

/// Makes a run's checkpoint the trainer's state. Throws InputError when it is of another recipe, seed or data
/// set. Changes no file.
void resume(Trainer& trainer, const Recipe& recipe, const FoundCheckpoint& checkpoint,
            const CheckpointOrigin& origin);

/// Takes the run directory back to the trainer's step: sets later checkpoints aside and deletes the metrics
/// of later steps. Returns the folder that RunDirectory::set_aside_after() made.
std::optional<std::filesystem::path> rewind(RunDirectory& run, const Trainer& trainer);

/// What a message about a run that a device ends goes on with: the last checkpoint, if there is one.
std::string way_on(const RunDirectory& run);

/// Trainer::probe(). A DeviceError names the last checkpoint.
std::string probe(Trainer& trainer, const RunDirectory& run, const std::atomic<bool>& stop);

/// Saves a checkpoint at the end. When `stop` becomes true, ends after the current step. Throws Diverged,
/// which names the tensor in which it began, the file that keeps the step, and the last checkpoint with a
/// finite loss. On DeviceError, which names the last checkpoint, several
/// towers' state from before the step is saved first. Calls `observe` after every step.
/// A checkpoint or a line of the metrics that cannot be written, also for want of memory, ends no run: it is
/// tried again at the next one and at the end. `warn` gets a line when that begins and when it is over.
/// Throws InputError, which says what is lost, when it fails at the end.
Ending train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
             const std::function<void(const Progress&)>& observe,
             const std::function<void(const std::string&)>& warn);

} // namespace towers
