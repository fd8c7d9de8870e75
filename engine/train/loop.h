// The training loop: steps, checkpoints and observers, until the training is done or told to stop.
#pragma once

#include "engine/run/run_directory.h"
#include "engine/run/test_record.h"
#include "engine/train/checkpoint.h"
#include "engine/train/observer.h"
#include "engine/train/trainer.h"

#include <atomic>
#include <vector>

namespace towers {

/// Whether anything depends on how good a test pass is.
inline bool are_judged(bool keep_best, std::uint64_t stop_early, const Schedule& schedule) {
    return keep_best || stop_early != 0 || schedule.kind == Schedule::Kind::plateau;
}

/// Test passes within the training.
struct TestPasses {
    std::uint64_t every = 0; ///< steps between them; there is one at the end too; 0: none
    bool raw = false;        ///< of the variables themselves, not of their moving averages
    bool scores = false;     ///< also the metrics that need scores
    const Metric* best_by = &all_metrics().front(); ///< what the following and a plateau schedule judge by
    bool keep_best = false;       ///< keeps the best parameters; see RunDirectory::best_path()
    std::uint64_t stop_early = 0; ///< ends the run after so many in a row that are not the best; 0: never

    /// Whether there is one after this step, of a run of so many steps in all.
    bool are_due(std::uint64_t step, std::uint64_t steps) const {
        return every != 0 && step > 0 && (step % every == 0 || step == steps);
    }
    /// Whether the run ends after these.
    bool are_enough(const TestRecord& record) const {
        return stop_early != 0 && record.since_best(*best_by) >= stop_early;
    }
};

struct LoopOptions {
    std::uint64_t steps;      ///< total number of updates, including earlier parts of the run
    std::uint64_t save_every; ///< steps between checkpoints; 0: only at the end
    unsigned keep;            ///< checkpoints; 0: all
    std::uint64_t log_every;  ///< steps between logged ones; 0: none is logged
    CheckpointOrigin origin;
    unsigned global_batch;
    const DataSource* data = nullptr; ///< of the training, to keep a step that diverges with its examples;
                                      ///< null: it is not kept
    TestPasses tests = {};            ///< the trainer has the test examples
};

enum class Ending { finished, stopped, early /**< as TestPasses say */ };

struct Ended {
    Ending how;
    TestRecord tests; ///< all test passes of the run
};

/// Saves the state of the training. A new run starts with this, so that it can be resumed even if it is
/// killed before the first regular checkpoint.
void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options);

/// Loads a run's checkpoint into the trainer. Throws InputError if it belongs to another recipe, seed or data
/// set. Changes no file.
void resume(Trainer& trainer, const Recipe& recipe, const FoundCheckpoint& checkpoint,
            const CheckpointOrigin& origin);

/// Takes the run directory back to the trainer's step: sets later checkpoints aside and deletes the metrics
/// of later steps. Returns the folder that RunDirectory::set_aside_after() made.
std::optional<std::filesystem::path> rewind(RunDirectory& run, const Trainer& trainer);

/// How to continue a run that a device or unreadable data has ended, to append to the message: names the last
/// checkpoint; empty if there is none.
std::string way_on(const RunDirectory& run);

/// Trainer::probe(). A DeviceError or InputError names the last checkpoint.
std::string probe(Trainer& trainer, const RunDirectory& run, const std::atomic<bool>& stop);

/// Trainer::tune(), then keeps the choices in the run's folder. Returns a line for the user, or nothing.
/// Errors as from probe().
std::string tune(Trainer& trainer, RunDirectory& run, const std::atomic<bool>& stop);

/// Trains and tests, and tells the observers, each time in their order. A test pass comes before the save
/// after the same step, and one that is due at the beginning, because the run was stopped within it, comes
/// first. When `stop` becomes true, ends after the current step, or the next if that has been begun, without
/// a test pass, which a resumed run makes. Saves a checkpoint at the end. Throws
/// - Diverged, which names the tensor in which it began, the file that keeps the step, and the last
///   checkpoint with a finite loss;
/// - DeviceError, which names the last checkpoint; of several towers the state from before the step is saved
///   first;
/// - InputError when data cannot be read; it names the last checkpoint, which has the last step's state;
/// - InputError, which says what is lost, when the last checkpoint or an observer's last lines cannot be
///   written. An earlier failure to write, also for want of memory, ends no run: the loop warns, tries again
///   at the next save and says when that has worked.
Ended train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
            const std::vector<Observer*>& observers);

} // namespace towers
