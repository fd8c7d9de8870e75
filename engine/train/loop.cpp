#include "engine/train/loop.h"

#include "engine/clock.h"
#include "engine/error.h"
#include "engine/train/diverged.h"
#include "engine/train/metrics.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <system_error>
#include <utility>

namespace towers {
namespace {

/// None if the folder is gone: a message that names them must be given all the same.
std::vector<std::uint64_t> checkpoints_if_there(const RunDirectory& run) {
    try {
        return run.checkpoints();
    } catch (const InputError&) {
        return {};
    }
}

/// What to do when the loss of the parameters after `step` steps is not finite.
std::string way_back(const RunDirectory& run, std::uint64_t step) {
    // A step with a finite loss followed every earlier checkpoint.
    std::vector<std::uint64_t> steps = checkpoints_if_there(run);
    std::erase_if(steps, [&](std::uint64_t each) { return each >= step; });
    if (steps.empty()) return "the run has no earlier checkpoint, so start another run";
    return fmt::format("the last checkpoint with a finite loss is {}: go on from it with --resume-from {}",
                       run.checkpoint_path(steps.back()).string(), steps.back());
}

/// Keeps the step that diverged, and says where and what was found of it.
std::string keep(const TowerStep& of, Trainer& trainer, const RunDirectory& run, const LoopOptions& options) {
    if (options.data == nullptr) return "";
    try {
        DivergedStep diverged = diverged_step(trainer, of, *options.data);
        const std::filesystem::path path = run.diverged_path(diverged.step.before.step);
        write_safetensors(path, to_tensors(diverged, options.origin)); // first: to do it again needs memory
        std::string what;
        try {
            diverged.found = examine(diverged, trainer.options());
            write_safetensors(path, to_tensors(diverged, options.origin));
            what = describe(*diverged.found);
        } catch (const std::exception& error) {
            what = fmt::format("it could not be done again to see where it begins: {}", error.what());
        }
        return fmt::format("{}; {} keeps the step, and 'towers replay' does it again; ", what, path.string());
    } catch (const std::bad_alloc&) {
        return "the step is not kept: there is not enough memory; ";
    } catch (const std::exception& error) {
        return fmt::format("the step is not kept: {}; ", error.what());
    }
}

/// A kind of file that the run writes again and again. The training goes on while that fails.
class Written {
public:
    explicit Written(const std::function<void(const std::string&)>& tell) : tell_(tell) {}

    /// Whether `write` worked; if not, failure() says why. Tells the user when a warning is over.
    template<class Write>
    bool attempt(const std::filesystem::path& path, const Write& write) {
        failure_.clear();
        try {
            write();
        } catch (const InputError& error) {
            failure_ = error.what();
        } catch (const std::bad_alloc&) {
            failure_ = fmt::format("cannot write {}: there is not enough memory", path.string());
        } catch (const OutOfMemory&) {
            failure_ = fmt::format("cannot write {}: there is not enough memory", path.string());
        } catch (const std::system_error& error) {
            failure_ = fmt::format("cannot write {}: {}", path.string(), error.code().message());
        }
        if (failure_.empty() && std::exchange(warned_, false))
            tell_(fmt::format("saved again: {}", path.string()));
        return failure_.empty();
    }
    /// Tells the user of the failure, and that training goes on, unless that is known.
    void warn() {
        if (!std::exchange(warned_, true))
            tell_(fmt::format("{}; training goes on and tries again at the next save", failure_));
    }
    const std::string& failure() const { return failure_; }

private:
    const std::function<void(const std::string&)>& tell_;
    std::string failure_;
    bool warned_ = false;
};

/// What is lost of a run that ends at `step`, after these failures to write its checkpoint and its metrics.
std::string what_is_lost(const RunDirectory& run, std::uint64_t step, const std::string& checkpoint,
                         const std::string& metrics) {
    const std::vector<std::uint64_t> steps = checkpoints_if_there(run);
    if (checkpoint.empty()) return fmt::format("{}; the lines that it lacks are lost", metrics);
    if (std::ranges::binary_search(steps, step)) return checkpoint; // only an earlier one is not deleted
    if (steps.empty())
        return fmt::format("{}; what was trained since the last checkpoint is lost", checkpoint);
    return fmt::format("{}; what was trained after {} is lost", checkpoint,
                       run.checkpoint_path(steps.back()).string());
}

/// Those that the metrics tell of.
std::vector<unsigned> last_shares(const RunDirectory& run) {
    std::error_code error;
    if (!std::filesystem::exists(run.metrics_path(), error)) return {};
    const std::vector<SharesFrom> recorded = read_shares(run.metrics_path());
    return recorded.empty() ? std::vector<unsigned>() : recorded.back().shares;
}

/// The same error, with more words.
[[noreturn]] void rethrow(const DeviceError& error, const std::string& more) {
    if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) throw OutOfMemory(error.what() + more);
    if (dynamic_cast<const DeviceLost*>(&error) != nullptr) throw DeviceLost(error.what() + more);
    throw DeviceError(error.what() + more);
}

} // namespace

std::string way_on(const RunDirectory& run) {
    const std::vector<std::uint64_t> steps = checkpoints_if_there(run);
    if (steps.empty()) return "";
    return fmt::format("; the last checkpoint is {}: go on from it with --resume",
                       run.checkpoint_path(steps.back()).string());
}

std::string probe(Trainer& trainer, const RunDirectory& run, const std::atomic<bool>& stop) {
    try {
        return trainer.probe(&stop);
    } catch (const DeviceError& error) {
        rethrow(error, way_on(run));
    }
}

void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options) {
    const TrainingState state = trainer.save();
    run.save_checkpoint(state.step, to_checkpoint(state, trainer.layout(), options.origin), options.keep);
}

void resume(Trainer& trainer, const Recipe& recipe, const FoundCheckpoint& checkpoint,
            const CheckpointOrigin& origin) {
    const auto& [path, file] = checkpoint;
    check_recipe(file, recipe, path);
    const TrainingState state = from_checkpoint(file, trainer.layout(), path);
    check_origin(file, origin, path);
    trainer.load(state);
}

std::optional<std::filesystem::path> rewind(RunDirectory& run, const Trainer& trainer) {
    std::optional<std::filesystem::path> folder = run.set_aside_after(trainer.steps_done());
    run.truncate_metrics(trainer.steps_done());
    return folder;
}

Ending train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
             const std::function<void(const Progress&)>& observe,
             const std::function<void(const std::string&)>& warn) {
    std::uint64_t step = trainer.steps_done(), saved = step;
    std::uint64_t logged_steps = 0;
    Clock::time_point logged = Clock::now();
    const bool several = trainer.tower_count() > 1;
    std::vector<unsigned> shares = several ? last_shares(run) : std::vector<unsigned>();
    Written metrics(warn), checkpoint(warn);
    const auto sync = [&] { return metrics.attempt(run.metrics_path(), [&] { run.sync_metrics(); }); };
    const auto save = [&] {
        if (saved == step) return true;
        try {
            if (!checkpoint.attempt(run.checkpoint_path(step),
                                    [&] { save_checkpoint(trainer, run, options); }))
                return false;
        } catch (const DeviceError& error) {
            rethrow(error, way_on(run));
        }
        saved = step;
        return true;
    };
    const auto lost = [&] { return what_is_lost(run, step, checkpoint.failure(), metrics.failure()); };
    while (step < options.steps && !stop) {
        Progress progress{};
        try {
            progress.report = trainer.step();
        } catch (const Diverged& diverged) {
            if (!sync()) warn(lost());
            throw Diverged(fmt::format("{}; {}{}", diverged.what(), keep(diverged.of, trainer, run, options),
                                       way_back(run, step)),
                           diverged.of);
        } catch (const DeviceError& error) {
            // Several towers keep their state on the host; a single tower's is lost with its device.
            const bool synced = sync();
            if ((several && !save()) || !synced) warn(lost());
            rethrow(error, way_on(run));
        }
        ++step;
        ++logged_steps;
        progress.log = options.log_every != 0 && progress.report.step % options.log_every == 0;
        const double seconds = seconds_since(logged);
        progress.seconds_per_step = seconds / double(logged_steps);
        progress.examples_per_second = options.global_batch / progress.seconds_per_step;
        // Every change of the shares has a line, so that they are known of every step.
        if (progress.log || (several && progress.report.shares != shares)) {
            const std::string line = metrics_line(progress.report, options.origin.records);
            if (!metrics.attempt(run.metrics_path(), [&] { run.append_metrics(line); })) metrics.warn();
            shares = progress.report.shares;
        }
        observe(progress);
        if (progress.log) {
            logged = Clock::now();
            logged_steps = 0;
        }
        const bool ends = step == options.steps || stop;
        if (options.save_every != 0 && step % options.save_every == 0 && !ends) {
            const Clock::time_point before = Clock::now();
            if (!sync()) metrics.warn();
            if (!save()) checkpoint.warn();
            logged += Clock::now() - before; // the log leaves out time spent on saving
        }
    }
    const bool synced = sync();
    if (!save() || !synced) throw InputError(lost());
    return step < options.steps ? Ending::stopped : Ending::finished;
}

} // namespace towers
