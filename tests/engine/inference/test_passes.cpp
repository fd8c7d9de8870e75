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

std::vector<std::uint64_t> steps_of(const Watcher& watcher) {
    std::vector<std::uint64_t> steps;
    for (const TestReport& report : watcher.reports) steps.push_back(report.step);
    return steps;
}

/// Trains in the folder, from its latest checkpoint if it has one.
Ending run_in(const std::filesystem::path& folder, const LoopOptions& loop, Watcher& watcher,
              const std::atomic<bool>& stop = false, std::optional<std::uint64_t> from = {}) {
    const bool resumes = std::filesystem::exists(folder);
    Trainer trainer(test::small_recipe(), options_of_trainer(), data(), test::borrowed(test_data()));
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
    while (record.since_best() < 3) {
        record.add({whole.reports[passes].step, whole.reports[passes].evaluation.accuracy()});
        ++passes;
    }
    CHECK(early.reports.size() == passes);
    CHECK(checkpoint_steps(folder / "early").back() == passes);
    CHECK(TestRecord::read(metrics_path_in(folder / "early"), ~0ull).since_best() == 3);
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
    CHECK(record.best() == nullptr);
    CHECK(record.since_best() == 0);
    for (const TestedStep& pass : {TestedStep{1, 0.2}, {2, 0.5}, {3, 0.5}, {4, 0.1}}) record.add(pass);
    CHECK(record.best()->step == 2);
    CHECK(record.since_best() == 2);
    CHECK(record.find(3)->accuracy == 0.5);
    CHECK(record.find(5) == nullptr);
}

} // namespace towers
