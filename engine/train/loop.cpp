#include "engine/train/loop.h"

#include "engine/clock.h"
#include "engine/train/diverged.h"
#include "engine/train/metrics.h"

#include <exception>
#include <fmt/format.h>
#include <new>

namespace towers {
namespace {

/// What to do when the loss of the parameters after `step` steps is not finite.
std::string way_back(const RunDirectory& run, std::uint64_t step) {
    // A step with a finite loss followed every earlier checkpoint.
    std::vector<std::uint64_t> steps = run.checkpoints();
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

/// Those that the metrics tell of.
std::vector<unsigned> last_shares(const RunDirectory& run) {
    if (!std::filesystem::exists(run.metrics_path())) return {};
    const std::vector<SharesFrom> recorded = read_shares(run.metrics_path());
    return recorded.empty() ? std::vector<unsigned>() : recorded.back().shares;
}

} // namespace

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
             const std::function<void(const Progress&)>& observe) {
    std::uint64_t step = trainer.steps_done(), saved = step;
    std::uint64_t logged_steps = 0;
    Clock::time_point logged = Clock::now();
    const bool several = trainer.tower_count() > 1;
    std::vector<unsigned> shares = several ? last_shares(run) : std::vector<unsigned>();
    while (step < options.steps && !stop) {
        Progress progress{};
        try {
            progress.report = trainer.step();
        } catch (const Diverged& diverged) {
            throw Diverged(fmt::format("{}; {}{}", diverged.what(), keep(diverged.of, trainer, run, options),
                                       way_back(run, step)),
                           diverged.of);
        } catch (const DeviceError&) {
            // Several towers keep their state on the host; a single tower's is lost with its device.
            if (saved != step && several) save_checkpoint(trainer, run, options);
            throw;
        }
        ++step;
        ++logged_steps;
        progress.log = options.log_every != 0 && progress.report.step % options.log_every == 0;
        const double seconds = seconds_since(logged);
        progress.seconds_per_step = seconds / double(logged_steps);
        progress.examples_per_second = options.global_batch / progress.seconds_per_step;
        // Every change of the shares has a line, so that they are known of every step.
        if (progress.log || (several && progress.report.shares != shares)) {
            run.append_metrics(metrics_line(progress.report, options.origin.records));
            shares = progress.report.shares;
        }
        observe(progress);
        if (progress.log) {
            logged = Clock::now();
            logged_steps = 0;
        }
        if (options.save_every != 0 && step % options.save_every == 0) {
            const Clock::time_point before = Clock::now();
            save_checkpoint(trainer, run, options);
            saved = step;
            logged += Clock::now() - before; // the log leaves out time spent on saving
        }
    }
    if (saved != step) save_checkpoint(trainer, run, options);
    return step < options.steps ? Ending::stopped : Ending::finished;
}

} // namespace towers
