#include "engine/train/loop.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace towers {
namespace {

using Clock = std::chrono::steady_clock;

/// Numbers that the same run repeats bit for bit; times are for the log.
std::string metrics_line(const StepReport& report, std::uint64_t records) {
    return nlohmann::json{{"step", report.step},
                          {"epoch", report.examples / records},
                          {"examples", report.examples},
                          {"loss", report.loss},
                          {"cross_entropy", report.cross_entropy},
                          {"learning_rate", report.learning_rate},
                          {"tower_losses", report.tower_losses}}
        .dump();
}

} // namespace

void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options) {
    const TrainingState state = trainer.save();
    run.save_checkpoint(state.step, to_checkpoint(state, trainer.layout(), options.origin), options.keep);
}

void resume(Trainer& trainer, RunDirectory& run, const CheckpointOrigin& origin) {
    const std::filesystem::path path = latest_checkpoint(run.path());
    const TensorFile file = read_safetensors(path);
    const TrainingState state = from_checkpoint(file, trainer.layout(), origin.recipe, path);
    check_origin(file, origin, path);
    trainer.load(state);
    run.truncate_metrics(state.step);
}

Ending train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
             const std::function<void(const Progress&)>& observe) {
    std::uint64_t step = trainer.steps_done(), saved = step;
    std::uint64_t logged_steps = 0;
    Clock::time_point logged = Clock::now();
    while (step < options.steps && !stop) {
        Progress progress{};
        try {
            progress.report = trainer.step();
        } catch (const Diverged&) {
            if (saved != step) save_checkpoint(trainer, run, options);
            throw;
        } catch (const DeviceError&) {
            // Several towers have their state on the host; that of one is lost with its device.
            if (saved != step && trainer.tower_count() > 1) save_checkpoint(trainer, run, options);
            throw;
        }
        ++step;
        ++logged_steps;
        progress.log = options.log_every != 0 && progress.report.step % options.log_every == 0;
        const double seconds = std::chrono::duration<double>(Clock::now() - logged).count();
        progress.seconds_per_step = seconds / double(logged_steps);
        progress.examples_per_second = options.global_batch / progress.seconds_per_step;
        if (progress.log) run.append_metrics(metrics_line(progress.report, options.origin.records));
        observe(progress);
        if (progress.log) {
            logged = Clock::now();
            logged_steps = 0;
        }
        if (options.save_every != 0 && step % options.save_every == 0) {
            const Clock::time_point before = Clock::now();
            save_checkpoint(trainer, run, options);
            saved = step;
            logged += Clock::now() - before; // the log counts no time spent on saving
        }
    }
    if (saved != step) save_checkpoint(trainer, run, options);
    return step < options.steps ? Ending::stopped : Ending::finished;
}

} // namespace towers
