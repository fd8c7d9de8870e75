// Test passes within a training loop: when they come, what they keep, and when they end a run.
#include "engine/observers/metrics.h"
#include "engine/run/read_metrics.h"
#include "engine/train/loop.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace towers {
namespace {

const Dataset& data() {
    static const Dataset noise = test::noise(50);
    return noise;
}
const Dataset& test_data() {
    static const Dataset noise = test::noise(24);
    return noise;
}

/// The learning rate makes the accuracy go up and down.
TrainerOptions options_of_trainer() {
    TrainerOptions options = test::options_for({"cpu"}, 4);
    options.learning_rate = 0.3;
    return options;
}

LoopOptions loop_of(std::uint64_t steps, const TestPasses& tests) {
    return {.steps = steps,
            .save_every = 4,
            .keep = 0,
            .log_every = 1,
            .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
            .global_batch = 4,
            .tests = tests};
}

/// Remembers the tests' steps, and does something after a step.
struct Watcher final : Observer {
    std::string place() const override { return "nowhere"; }
    bool observe(const Progress& progress) override {
        if (after_step) after_step(progress.report.step);
        return false;
    }
    bool tested(const TestReport& report) override {
        reports.push_back(report);
        return false;
    }
    void warn(const std::string& line) override { warnings.push_back(line); }

    std::function<void(std::uint64_t step)> after_step;
    std::vector<TestReport> reports;
    std::vector<std::string> warnings;
};

const Metric& accuracy() { return find_metric("accuracy", ""); }

std::vector<std::uint64_t> steps_of(const Watcher& watcher) {
    std::vector<std::uint64_t> steps;
    for (const TestReport& report : watcher.reports) steps.push_back(report.step);
    return steps;
}

/// Trains in the folder, from its latest checkpoint if it has one.
Ending run_in(const std::filesystem::path& folder, const LoopOptions& loop, Watcher& watcher,
              const std::atomic<bool>& stop = false, std::optional<std::uint64_t> from = {},
              const Schedule& schedule = {}) {
    const bool resumes = std::filesystem::exists(folder);
    Recipe recipe = test::small_recipe();
    recipe.schedule = schedule;
    Trainer trainer(recipe, options_of_trainer(), data(), test::borrowed(test_data()));
    RunDirectory run(folder, resumes ? Existing::resume : Existing::refuse);
    if (resumes) {
        resume(trainer, test::small_recipe(), find_checkpoint(folder, from), loop.origin);
        rewind(run, trainer);
    } else {
        save_checkpoint(trainer, run, loop);
    }
    Metrics metrics(run, loop.origin.records);
    return train(trainer, run, loop, stop, {&metrics, &watcher}).how;
}

std::string metrics_of(const std::filesystem::path& folder) {
    return test::read_text(metrics_path_in(folder));
}

std::string without_tests(const std::string& metrics) {
    std::istringstream lines(metrics);
    std::string kept;
    for (std::string line; std::getline(lines, line);)
        if (line.find("test_") == std::string::npos) kept += line + '\n';
    return kept;
}

} // namespace

TEST_CASE("test passes come every N steps and at the end, and a run's bits are those of one without") {
    const test::TemporaryFolder folder;
    Watcher with, without;
    CHECK(run_in(folder / "with", loop_of(11, {.every = 4}), with) == Ending::finished);
    CHECK(run_in(folder / "without", loop_of(11, {}), without) == Ending::finished);
    CHECK(steps_of(with) == std::vector<std::uint64_t>{4, 8, 11});
    CHECK(without.reports.empty());
    for (const std::uint64_t step : {0, 4, 8, 11}) {
        const std::string name = fmt::format("model.ckpt-{}.safetensors", step);
        const bool same =
            test::read_text(folder / "with" / name) == test::read_text(folder / "without" / name);
        CHECK(same);
    }
    CHECK(without_tests(metrics_of(folder / "with")) == metrics_of(folder / "without"));

    // A line of a test pass is reproducible, and has the number of the step with the same parameters.
    std::istringstream lines(metrics_of(folder / "with"));
    std::string line;
    for (int i = 0; i < 5; ++i) std::getline(lines, line);
    const nlohmann::json parsed = nlohmann::json::parse(line);
    const Evaluation& first = with.reports[0].evaluation;
    CHECK(parsed.at("step") == 4);
    CHECK(parsed.at("examples") == 16);
    CHECK(parsed.at("test_examples") == 24);
    CHECK(parsed.at("test_correct") == first.correct);
    CHECK(parsed.at("test_precision") == first.accuracy());
    CHECK(parsed.at("test_precision_5") == first.accuracy_in_few());
    CHECK(parsed.at("test_cross_entropy") == first.cross_entropy());
}

TEST_CASE("a stopped run that is resumed has the metrics and the best parameters of an undisturbed one") {
    const test::TemporaryFolder folder;
    const LoopOptions loop = loop_of(12, {.every = 3, .raw = true, .keep_best = true});
    Watcher whole;
    run_in(folder / "whole", loop, whole);
    REQUIRE(whole.reports.size() == 4);
    for (const std::uint64_t last :
         {4, 5, 8, 11}) { // after 5, 8 and 11 a test pass is due, and does not come
        CAPTURE(last);
        const std::filesystem::path run = folder / fmt::format("stopped-{}", last);
        std::atomic<bool> stop = false;
        Watcher watcher;
        watcher.after_step = [&](std::uint64_t step) { stop = step == last; };
        CHECK(run_in(run, loop, watcher, stop) == Ending::stopped);
        watcher.after_step = nullptr;
        CHECK(run_in(run, loop, watcher) == Ending::finished);
        CHECK(steps_of(watcher) == steps_of(whole));
        CHECK(metrics_of(run) == metrics_of(folder / "whole"));
        const bool same =
            test::read_text(run / "best.safetensors") == test::read_text(folder / "whole/best.safetensors");
        CHECK(same);
    }
    // Going back: the passes after that step are forgotten, and made again.
    Watcher again;
    run_in(folder / "whole", loop, again, false, 4);
    CHECK(steps_of(again) == std::vector<std::uint64_t>{6, 9, 12});
    CHECK(read_tests(metrics_path_in(folder / "whole")).size() == 4);
}

TEST_CASE("--keep-best keeps the first parameters with the best accuracy") {
    const test::TemporaryFolder folder;
    const LoopOptions loop = loop_of(12, {.every = 1, .raw = true, .keep_best = true});
    Watcher watcher;
    run_in(folder / "run", loop, watcher);
    const TestReport* best = &watcher.reports[0];
    for (const TestReport& each : watcher.reports)
        if (each.evaluation.correct > best->evaluation.correct) best = &each;
    REQUIRE(best->evaluation.correct > watcher.reports.back().evaluation.correct);
    RunDirectory run(folder / "run", Existing::resume);
    CHECK(run.best()->step == best->step);
    const FoundCheckpoint found{run.best_path(), read_safetensors(run.best_path())};
    Trainer trainer(test::small_recipe(), options_of_trainer(), data(), test::borrowed(test_data()));
    resume(trainer, test::small_recipe(), found, loop.origin);
    CHECK(trainer.test(true)->evaluation.correct == best->evaluation.correct);

    // It is set aside with the later checkpoints.
    run.set_aside_after(0);
    CHECK_FALSE(run.best().has_value());
    CHECK(std::filesystem::exists(folder / "run/replaced-1/best.safetensors"));
}

TEST_CASE("--stop-early ends a run after so many passes without a better accuracy") {
    const test::TemporaryFolder folder;
    Watcher whole, early;
    run_in(folder / "whole", loop_of(30, {.every = 1, .raw = true}), whole);
    CHECK(run_in(folder / "early", loop_of(30, {.every = 1, .raw = true, .stop_early = 3}), early) ==
          Ending::early);
    TestRecord record;
    std::size_t passes = 0;
    while (record.since_best(accuracy()) < 3) {
        record.add({whole.reports[passes].step, whole.reports[passes].metrics});
        ++passes;
    }
    CHECK(early.reports.size() == passes);
    CHECK(checkpoint_steps(folder / "early").back() == passes);
    CHECK(TestRecord::read(metrics_path_in(folder / "early"), ~0ull).since_best(accuracy()) == 3);
}

TEST_CASE("--best-by chooses the metric by which parameters are kept and a run is stopped") {
    const test::TemporaryFolder folder;
    const Metric& loss = find_metric("cross_entropy", "");
    Watcher watcher;
    const TestPasses by_loss{.every = 1, .raw = true, .best_by = &loss, .keep_best = true};
    run_in(folder / "run", loop_of(12, by_loss), watcher);
    const TestReport* best = &watcher.reports[0];
    for (const TestReport& each : watcher.reports)
        if (each.evaluation.loss_sum < best->evaluation.loss_sum) best = &each;
    {
        RunDirectory run(folder / "run", Existing::resume);
        CHECK(run.best()->step == best->step);
        CHECK(run.best()->by == "cross_entropy");
        CHECK(run.best()->value == best->evaluation.cross_entropy());
    }
    // What is kept counts by its own pass when the run goes on with another metric.
    const TestRecord before = TestRecord::read(metrics_path_in(folder / "run"), 12);
    REQUIRE(before.find(best->step)->value(accuracy()) < before.best(accuracy())->value(accuracy()));
    TestPasses by_accuracy = by_loss;
    by_accuracy.best_by = &accuracy();
    Watcher later;
    run_in(folder / "run", loop_of(16, by_accuracy), later);
    std::uint64_t expected = best->step;
    double kept = *before.find(best->step)->value(accuracy());
    for (const TestReport& each : later.reports)
        if (each.evaluation.accuracy() > kept) expected = each.step, kept = each.evaluation.accuracy();
    CHECK(RunDirectory(folder / "run", Existing::resume).best()->step == expected);

    Watcher early;
    const TestPasses stops{.every = 1, .raw = true, .best_by = &loss, .stop_early = 2};
    run_in(folder / "early", loop_of(30, stops), early);
    TestRecord record;
    for (const TestReport& each : early.reports) {
        CHECK(record.since_best(loss) < 2);
        record.add({each.step, each.metrics});
    }
    CHECK(record.since_best(loss) == 2);
    // AUC is measured if the run is judged by it, else on demand.
    CHECK_FALSE(early.reports[0].metrics.contains("auc_macro"));
    for (const TestPasses& passes :
         {TestPasses{.every = 1, .best_by = &find_metric("auc_macro", "")}, {.every = 1, .scores = true}}) {
        Watcher scored;
        run_in(folder / (passes.scores ? "scores" : "auc"), loop_of(1, passes), scored);
        CHECK(scored.reports[0].metrics.contains("auc_macro"));
    }
}

TEST_CASE("a stopped run with a plateau schedule has the bits of an undisturbed one when it is resumed") {
    const test::TemporaryFolder folder;
    Schedule plateau{.kind = Schedule::Kind::plateau, .factor = 0.5, .patience = 1};
    const LoopOptions loop = loop_of(
        24, {.every = 2, .raw = true, .best_by = &find_metric("cross_entropy", ""), .keep_best = true});
    Watcher whole;
    run_in(folder / "whole", loop, whole, false, {}, plateau);
    std::vector<std::uint64_t> lowered;
    for (const TestReport& each : whole.reports)
        if (each.notice.find("the learning rate is ") != std::string::npos) lowered.push_back(each.step);
    CAPTURE(metrics_of(folder / "whole"));
    REQUIRE(lowered.size() >= 2);
    REQUIRE(lowered.size() < whole.reports.size() - 2);
    double expected = 0.3; // each step's rate
    std::istringstream lines(metrics_of(folder / "whole"));
    for (std::string line; std::getline(lines, line);) {
        const nlohmann::json step = nlohmann::json::parse(line);
        if (!step.contains("learning_rate")) continue;
        if (std::ranges::count(lowered, step["step"].get<std::uint64_t>()) > 0) expected /= 2;
        CHECK(step["learning_rate"].get<double>() == expected);
    }
    // Before, at and after a pass that lowers it; where a pass is due, it is left to the resumed run.
    const std::uint64_t at = lowered[1];
    for (const std::uint64_t last : {at - 2, at - 1, at, at + 1}) {
        CAPTURE(last);
        const std::filesystem::path run = folder / fmt::format("stopped-{}", last);
        std::atomic<bool> stop = false;
        Watcher watcher;
        watcher.after_step = [&](std::uint64_t step) { stop = step + 1 == last; };
        CHECK(run_in(run, loop, watcher, stop, {}, plateau) == Ending::stopped);
        watcher.after_step = nullptr;
        CHECK(run_in(run, loop, watcher, false, {}, plateau) == Ending::finished);
        CHECK(metrics_of(run) == metrics_of(folder / "whole"));
        for (const char* name : {"best.safetensors", "model.ckpt-24.safetensors"}) {
            const bool same = test::read_text(run / name) == test::read_text(folder / "whole" / name);
            CHECK(same);
        }
    }
    // From an earlier checkpoint, whose state has fewer passes
    Watcher again;
    const std::string before = metrics_of(folder / "whole");
    run_in(folder / "whole", loop, again, false, 4, plateau);
    CHECK(metrics_of(folder / "whole") == before);

    const std::filesystem::path path = folder / "whole/model.ckpt-24.safetensors";
    TensorFile file = read_safetensors(path);
    file.metadata["plateau"] = "{\"factor\": 2}";
    Trainer trainer(test::small_recipe(), options_of_trainer(), data());
    CHECK(test::input_error([&] { from_checkpoint(file, trainer.layout(), path); }) ==
          path.string() + ": 'plateau' in its metadata is damaged; use another checkpoint");
}

TEST_CASE("the best parameters wait in memory for a full disk to have room") {
    const test::TemporaryFolder folder;
    LoopOptions loop = loop_of(12, {.every = 1, .raw = true, .keep_best = true});
    Watcher whole;
    run_in(folder / "whole", loop, whole);
    for (const bool room : {true, false}) {
        CAPTURE(room);
        const std::filesystem::path run = folder / (room ? "room" : "full");
        Watcher watcher;
        std::optional<test::FullDisk> disk;
        watcher.after_step = [&](std::uint64_t step) {
            if (step == 0) disk.emplace(20000); // metrics fit
            if (step == 11 && room) disk.reset();
        };
        loop.save_every = room ? 4 : 0;
        const std::string path = (run / "best.safetensors").string();
        if (!room) {
            const std::string error = test::input_error([&] { run_in(run, loop, watcher); });
            CHECK(error.starts_with("cannot write "));
        } else {
            run_in(run, loop, watcher);
            const bool same = test::read_text(path) == test::read_text(folder / "whole/best.safetensors");
            CHECK(same);
        }
        REQUIRE(!watcher.warnings.empty());
        CHECK(watcher.warnings[0].starts_with("cannot write " + path + ": File too large"));
        CHECK(watcher.warnings[0].ends_with("; training goes on and tries again at the next save"));
    }
}

TEST_CASE("the best of equal passes is the earliest") {
    TestRecord record;
    CHECK(record.best(accuracy()) == nullptr);
    CHECK(record.since_best(accuracy()) == 0);
    double values[] = {0.2, 0.5, 0.5, 0.1};
    for (const std::uint64_t step : {1, 2, 3, 4}) record.add({step, {{"accuracy", values[step - 1]}}});
    CHECK(record.best(accuracy())->step == 2);
    CHECK(record.since_best(accuracy()) == 2);
    CHECK(record.find(3)->value(accuracy()) == 0.5);
    CHECK(record.find(5) == nullptr);
}

} // namespace towers
