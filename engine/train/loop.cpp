#include "engine/train/loop.h"

#include "backends/error.h"
#include "engine/clock.h"
#include "engine/train/circumstances.h"
#include "engine/train/diverged.h"
#include "engine/train/written.h"
#include "engine/tuning/tuning.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace towers {
namespace {

/// None if the folder is gone: the message that would name them must appear anyway.
std::vector<std::uint64_t> checkpoints_if_there(const RunDirectory& run) {
    try {
        return checkpoint_steps(run.path());
    } catch (const InputError&) {
        return {};
    }
}

/// Advice if the loss of the parameters after `step` steps is not finite.
std::string way_back(const RunDirectory& run, std::uint64_t step) {
    // After every earlier checkpoint came a step with a finite loss.
    std::vector<std::uint64_t> steps = checkpoints_if_there(run);
    std::erase_if(steps, [&](std::uint64_t each) { return each >= step; });
    if (steps.empty()) return "the run has no earlier checkpoint, so start another run";
    return fmt::format("the last checkpoint with a finite loss is {}: go on from it with --resume-from {}",
                       run.checkpoint_path(steps.back()).string(), steps.back());
}

/// Saves the step that diverged, and returns the file and the findings.
std::string keep(const TowerStep& of, Trainer& trainer, const RunDirectory& run, const LoopOptions& options) {
    if (options.data == nullptr) return "";
    try {
        DivergedStep diverged = diverged_step(trainer, of, *options.data);
        const std::filesystem::path path = run.diverged_path(diverged.step.before.step);
        write_safetensors(path, to_tensors(diverged, options.origin)); // first: a replay needs memory
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

TensorFile whole_checkpoint(Trainer& trainer, const LoopOptions& options) {
    TensorFile file = to_checkpoint(trainer.save(), trainer.layout(), options.origin);
    put(circumstances_of(trainer), file);
    return file;
}

/// The same error with a longer message.
[[noreturn]] void rethrow(const DeviceError& error, const std::string& more) {
    if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) throw OutOfMemory(error.what() + more);
    if (dynamic_cast<const NoAnswer*>(&error) != nullptr) throw NoAnswer(error.what() + more);
    if (dynamic_cast<const DeviceLost*>(&error) != nullptr) throw DeviceLost(error.what() + more);
    throw DeviceError(error.what() + more);
}

[[noreturn]] void rethrow(const InputError& error, const std::string& more) {
    if (dynamic_cast<const UsageError*>(&error) != nullptr) throw UsageError(error.what() + more);
    throw InputError(error.what() + more);
}

class Loop {
public:
    Loop(Trainer& trainer, RunDirectory& run, const LoopOptions& options,
         const std::vector<Observer*>& observers)
        : trainer_(trainer), run_(run), options_(options), observers_(observers),
          written_(observers.size(), Written(tell_)), step_(trainer.steps_done()), saved_(step_) {
        if (options.tests.every == 0) return;
        tests_ = TestRecord::read(run.metrics_path(), step_);
        if (options.tests.keep_best)
            if (const auto kept = run.best()) kept_ = value_of(*kept);
    }
    Loop(const Loop&) = delete; // written_ holds its address
    Loop& operator=(const Loop&) = delete;
    ~Loop() {
        for (Observer* const each : observers_) each->end();
    }

    Ended run(const std::atomic<bool>& stop) {
        test_if_due(stop);
        while (trainer_.is_ahead() || (step_ < options_.steps && !stop && !has_tested_enough())) {
            const bool another = !stop && !is_something_due_after(step_ + 1);
            StepReport report = watch_devices([&] { return trainer_.step(another); });
            ++step_;
            observe(std::move(report));
            test_if_due(stop);
            const bool ends = step_ == options_.steps || stop || has_tested_enough();
            if (is_save_due_after(step_) && !ends) save_on_the_way();
        }
        const bool finished = step_ == options_.steps && !is_test_due();
        const Ending how = finished              ? Ending::finished
                           : has_tested_enough() ? Ending::early
                                                 : Ending::stopped;
        tell_end(how == Ending::finished ? StepsEnd::How::finished
                 : how == Ending::early  ? StepsEnd::How::early
                                         : StepsEnd::How::stopped);
        const bool kept = keep_outputs();
        if (!save() || !kept) throw InputError(what_is_lost());
        return {how, tests_};
    }

private:
    /// Work of the towers, a step or a test pass.
    template<class Work>
    std::invoke_result_t<Work> watch_devices(const Work& work) {
        try {
            return work();
        } catch (const Diverged& diverged) {
            tell_end(StepsEnd::How::diverged, diverged.what());
            if (!keep_outputs()) tell_(what_is_lost());
            throw Diverged(fmt::format("{}; {}{}", diverged.what(),
                                       keep(diverged.of, trainer_, run_, options_), way_back(run_, step_)),
                           diverged.of);
        } catch (const DeviceError& error) {
            tell_end(StepsEnd::How::failed, error.what());
            // With several towers the state is on the host; a single tower's is lost with its device.
            const bool kept = keep_outputs();
            if ((trainer_.tower_count() > 1 && !save()) || !kept) tell_(what_is_lost());
            rethrow(error, way_on(run_));
        } catch (const InputError& error) { // data that cannot be read; the last step's state is sound
            tell_end(StepsEnd::How::failed, error.what());
            const bool kept = keep_outputs();
            if (!save() || !kept) tell_(what_is_lost());
            rethrow(error, way_on(run_));
        }
    }

    /// Calls `what` with each observer. The training continues if one cannot write.
    template<class What>
    void tell_observers(const What& what) {
        for (std::size_t i = 0; i < observers_.size(); ++i)
            if (!written_[i].attempt(observers_[i]->place(), [&] { return what(*observers_[i]); }))
                written_[i].warn();
    }

    void tell_end(StepsEnd::How how, const std::string& why = "") {
        tell_observers([&](Observer& each) { return each.steps_end({how, step_, why}); });
    }

    void observe(StepReport report) {
        ++logged_steps_;
        const double seconds = seconds_since(logged_) / double(logged_steps_);
        const bool log = options_.log_every != 0 && report.step % options_.log_every == 0;
        const Progress progress{.report = std::move(report),
                                .log = log,
                                .examples_per_second = options_.global_batch / seconds,
                                .seconds_per_step = seconds};
        const Clock::time_point before = Clock::now();
        watch_devices([&] { tell_observers([&](Observer& each) { return each.observe(progress); }); });
        if (is_needed_after(step_)) logged_ += Clock::now() - before; // the log's rate is the training's
        if (!log) return;
        logged_ = Clock::now();
        logged_steps_ = 0;
    }

    bool is_save_due_after(std::uint64_t step) const {
        return options_.save_every != 0 && step % options_.save_every == 0;
    }
    /// Whether the loop needs the state between this step and the one after it.
    bool is_something_due_after(std::uint64_t step) const {
        return step >= options_.steps || is_save_due_after(step) ||
               options_.tests.are_due(step, options_.steps) || is_needed_after(step);
    }
    /// Whether an observer needs it.
    bool is_needed_after(std::uint64_t step) const {
        return std::ranges::any_of(observers_, [&](const Observer* each) { return each->needs_state(step); });
    }

    bool has_tested_enough() const { return options_.tests.are_enough(tests_); }

    bool is_test_due() const {
        return options_.tests.are_due(step_, options_.steps) && tests_.find(step_) == nullptr;
    }

    void test_if_due(const std::atomic<bool>& stop) {
        if (stop || !is_test_due()) return;
        const Clock::time_point before = Clock::now();
        const auto& [every, raw, scores, best_by, keeps_best, stop_early] = options_.tests;
        const bool judges = are_judged(keeps_best, stop_early, trainer_.recipe().schedule);
        auto report =
            watch_devices([&] { return trainer_.test(raw, &stop, scores || best_by->needs_scores); });
        if (report) {
            const TestedStep pass{step_, report->metrics};
            tests_.add(pass);
            const std::optional<double> value = pass.value(*best_by);
            if (judges && !value && !std::exchange(told_unjudged_, true))
                add_notice(report->notice,
                           fmt::format("the test pass is not judged: it has no {}{}", best_by->text,
                                       std::isfinite(report->evaluation.cross_entropy())
                                           ? ", which these examples' labels leave undefined"
                                           : " because its loss is not finite"));
            add_notice(report->notice, trainer_.judge(*report, *best_by));
            tell_observers([&](Observer& each) { return each.tested(*report); });
            if (keeps_best && value && !(kept_ && !best_by->is_better(*value, *kept_)))
                watch_devices([&] { keep_best(*value); });
        } else if (const std::string notice = trainer_.take_notice(); !notice.empty()) {
            tell_(fmt::format("step {}, {}", step_, notice));
        }
        logged_ += Clock::now() - before; // the log's rate is the training's
    }

    /// Of the parameters that have been kept; none if they were chosen by another metric that is all that
    /// is known of them.
    std::optional<double> value_of(const RunDirectory::Best& kept) const {
        if (kept.by == options_.tests.best_by->name) return kept.value;
        const TestedStep* const pass = tests_.find(kept.step);
        return pass != nullptr ? pass->value(*options_.tests.best_by) : std::nullopt;
    }

    void keep_best(double value) {
        save_best([&] {
            unsaved_best_ = whole_checkpoint(trainer_, options_);
            kept_ = value;
        });
        if (!best_.failure().empty()) best_.warn();
    }

    /// Whether the best parameters are on the disk. Until they are, they are kept in memory.
    bool save_best(const std::function<void()>& prepare = [] {}) {
        const auto write = [&] {
            prepare();
            if (!unsaved_best_) return false;
            run_.save_best(*unsaved_best_, {trainer_.steps_done(), options_.tests.best_by->name, *kept_});
            unsaved_best_.reset();
            return true;
        };
        return best_.attempt(run_.best_path().string(), write);
    }

    /// Whether all observers' lines are on the disk.
    bool sync() {
        bool synced = true;
        for (std::size_t i = 0; i < observers_.size(); ++i) {
            const auto write = [&] {
                observers_[i]->sync();
                return true;
            };
            synced = written_[i].attempt(observers_[i]->place(), write) && synced;
        }
        return synced;
    }

    /// Whether everything but the state of this step is on the disk.
    bool keep_outputs() {
        const bool synced = sync();
        return save_best() && synced;
    }

    /// Whether the state of this step is in a checkpoint.
    bool save() {
        if (saved_ == step_) return true;
        const auto write = [&] {
            save_checkpoint(trainer_, run_, options_);
            return true;
        };
        try {
            if (!checkpoint_.attempt(run_.checkpoint_path(step_).string(), write)) return false;
        } catch (const DeviceError& error) {
            rethrow(error, way_on(run_));
        }
        saved_ = step_;
        return true;
    }

    void save_on_the_way() {
        const Clock::time_point before = Clock::now();
        sync();
        for (Written& each : written_)
            if (!each.failure().empty()) each.warn();
        if (!save_best()) best_.warn();
        if (!save()) checkpoint_.warn();
        logged_ += Clock::now() - before; // the log leaves out the time spent on saving
    }

    /// What a run that ends now has lost, after failures to write.
    std::string what_is_lost() const {
        if (checkpoint_.failure().empty() && !best_.failure().empty())
            return fmt::format("{}; the parameters after step {}, the best in the test, are lost",
                               best_.failure(), tests_.best(*options_.tests.best_by)->step);
        if (checkpoint_.failure().empty()) {
            const auto failed =
                std::ranges::find_if(written_, [](const Written& each) { return !each.failure().empty(); });
            return fmt::format("{}; the lines that it lacks are lost", failed->failure());
        }
        const std::vector<std::uint64_t> steps = checkpoints_if_there(run_);
        if (std::ranges::binary_search(steps, step_))
            return checkpoint_.failure(); // only deleting an earlier one has failed
        if (steps.empty())
            return fmt::format("{}; what was trained since the last checkpoint is lost",
                               checkpoint_.failure());
        return fmt::format("{}; what was trained after {} is lost", checkpoint_.failure(),
                           run_.checkpoint_path(steps.back()).string());
    }

    Trainer& trainer_;
    RunDirectory& run_;
    const LoopOptions& options_;
    const std::vector<Observer*>& observers_;
    const Tell tell_ = [this](const std::string& line) {
        for (Observer* const each : observers_) each->warn(line);
    };
    std::vector<Written> written_; ///< by observer
    Written checkpoint_{tell_}, best_{tell_};
    TestRecord tests_;
    bool told_unjudged_ = false; ///< that a test pass has no value of the metric
    std::optional<double> kept_; ///< the metric of the parameters at RunDirectory::best_path(), or of
    std::optional<TensorFile> unsaved_best_; ///< those that could not be written there
    std::uint64_t step_, saved_;             ///< steps taken, and those of the last checkpoint
    Clock::time_point logged_ = Clock::now();
    std::uint64_t logged_steps_ = 0; ///< logged steps since the last line
};

} // namespace

std::string way_on(const RunDirectory& run) {
    const std::vector<std::uint64_t> steps = checkpoints_if_there(run);
    if (steps.empty()) return "";
    return fmt::format("; the last checkpoint is {}: go on from it with --resume",
                       run.checkpoint_path(steps.back()).string());
}

namespace {

/// Calls `start`, and adds the way on to its errors.
template<class Start>
std::string started(const RunDirectory& run, Start start) {
    try {
        return start();
    } catch (const DeviceError& error) {
        rethrow(error, way_on(run));
    } catch (const InputError& error) {
        rethrow(error, way_on(run));
    }
}

} // namespace

std::string probe(Trainer& trainer, const RunDirectory& run, const std::atomic<bool>& stop) {
    return started(run, [&] { return trainer.probe(&stop); });
}

std::string tune(Trainer& trainer, RunDirectory& run, const std::atomic<bool>& stop) {
    const auto& tuning = trainer.options().tuning;
    if (!tuning) return "";
    return started(run, [&]() -> std::string {
        try {
            trainer.tune(&stop);
        } catch (const DeviceError& error) {
            rethrow(error, "; --tune off measures nothing and runs everything by the estimate");
        }
        if (stop) return ""; // it may lack choices
        if (tuning->has_choices()) run.write_choices(tuning->to_json());
        return tuning->summary();
    });
}

void save_checkpoint(Trainer& trainer, RunDirectory& run, const LoopOptions& options) {
    run.save_checkpoint(trainer.steps_done(), whole_checkpoint(trainer, options), options.keep);
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
    run.truncate_lines(trainer.steps_done());
    return folder;
}

Ended train(Trainer& trainer, RunDirectory& run, const LoopOptions& options, const std::atomic<bool>& stop,
            const std::vector<Observer*>& observers) {
    return Loop(trainer, run, options, observers).run(stop);
}

} // namespace towers
