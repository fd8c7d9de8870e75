#include "engine/observers/times.h"

#include "backends/error.h"
#include "engine/train/loop.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

LoopOptions loop_of(std::uint64_t steps) {
    return {.steps = steps,
            .save_every = 2,
            .keep = 0,
            .log_every = 2,
            .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
            .global_batch = 4};
}

std::vector<std::string> events_of(const TimesOfRun& times) {
    std::vector<std::string> names;
    for (const RunEvent& event : times.events) names.push_back(event.event);
    return names;
}

using Names = std::vector<std::string>;

} // namespace

TEST_CASE("the times tell of a lost device, a resumption, and each tower's work") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    const LoopOptions loop = loop_of(6);
    {
        test::Failure failure;
        TrainerOptions options = test::options_for({"cpu", "cpu"}, 4);
        options.outlive_devices = true;
        test::wrap_tower(options, 1, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
        });
        Trainer trainer(test::small_recipe(), options, data);
        RunDirectory run(folder.path(), Existing::refuse);
        Times times(run, trainer, false);
        CHECK(times.place() == times_path_in(folder.path()).string());
        struct Loser final : Observer {
            explicit Loser(test::Failure& which) : failure(which) {}
            std::string place() const override { return "nowhere"; }
            bool observe(const Progress& progress) override {
                failure.lost = progress.report.step == 2;
                return false;
            }
            test::Failure& failure;
        } loser(failure);
        train(trainer, run, loop, false, {&times, &loser});
    }
    const TimesOfRun first = read_times(times_path_in(folder.path()));
    REQUIRE(events_of(first) == Names{"start", "lost", "finished"});
    REQUIRE(first.events[0].towers.size() == 2);
    CHECK(first.events[0].towers[1] == record_of(open_device("cpu", {})->info()));
    CHECK(first.events[0].shares == std::vector{2u, 2u});
    CHECK(first.events[1].step == 4);
    CHECK(first.events[1].lost == std::vector{1u});
    CHECK(first.events[1].shares == std::vector{4u, 0u});
    CHECK(first.events[1].text.find("tower_1 (cpu) failed and is dropped") != std::string::npos);
    CHECK(first.events[1].line_before == 1);
    CHECK(first.events[2].step == 6);
    REQUIRE(first.steps.size() == 3); // 0, 2, 4
    CHECK(first.steps[1].step == 2);
    REQUIRE(first.steps[1].towers.size() == 2);
    CHECK(first.steps[1].towers[0].examples == 4);
    CHECK(first.steps[1].towers[1].examples == 4);
    CHECK(first.steps[2].towers[0].examples == 8); // of steps 3, which was repeated, and 4
    CHECK(first.steps[2].towers[1].examples == 0);
    for (const TimedStep& step : first.steps) {
        CHECK(step.rate > 0);
        CHECK(step.towers[0].work > 0);
        CHECK(step.towers[0].work <= step.seconds * 1.001);
        CHECK(step.time > 1e9);
    }

    // From an earlier step: its lines and the later ones go, what happened stays.
    Trainer trainer(test::small_recipe(), test::options_for({"cpu"}, 4), data);
    RunDirectory run(folder.path(), Existing::resume);
    resume(trainer, test::small_recipe(), find_checkpoint(folder.path(), 2), loop.origin);
    const auto replaced = rewind(run, trainer);
    REQUIRE(replaced);
    CHECK(read_times(times_path_in(*replaced)).steps.size() == 3);
    Times times(run, trainer, true);
    train(trainer, run, loop, false, {&times});
    const TimesOfRun again = read_times(times_path_in(folder.path()));
    CHECK(events_of(again) == Names{"start", "lost", "finished", "resume", "finished"});
    REQUIRE(again.steps.size() == 3);
    CHECK(again.steps[1].step == 2);
    CHECK(again.steps[1].towers.size() == 1);
    CHECK(again.events[3].step == 2);
    CHECK(again.events[3].line_before == 0);
}

TEST_CASE("the times say that a run diverged, failed, or was told to stop") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    const auto last_event = [&](const char* name, TrainerOptions options, bool stop) {
        Trainer trainer(test::small_recipe(), options, data);
        RunDirectory run(folder / name, Existing::refuse);
        Times times(run, trainer, false);
        try {
            const std::atomic<bool> stopped = stop;
            train(trainer, run, loop_of(6), stopped, {&times});
        } catch (const std::runtime_error&) {
        }
        return read_times(times_path_in(folder / name)).events.back();
    };
    TrainerOptions wild = test::options_for({"cpu"}, 4);
    wild.learning_rate = 1e30;
    const RunEvent diverged = last_event("diverged", wild, false);
    CHECK(diverged.event == "diverged");
    CHECK_FALSE(diverged.text.empty());

    test::Failure failure;
    failure.lost = true;
    TrainerOptions lost = test::options_for({"cpu"}, 4);
    test::wrap_tower(lost, 0, [&](std::unique_ptr<Device> device) {
        failure.lost = false;
        failure.calls_left = 3; // submissions
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
    });
    const RunEvent failed = last_event("failed", lost, false);
    CHECK(failed.event == "failed");
    CHECK(failed.text.starts_with("refused"));

    const RunEvent stopped = last_event("stopped", test::options_for({"cpu"}, 4), true);
    CHECK(stopped.event == "stopped");
    CHECK(stopped.step == 0);
}

TEST_CASE("times that cannot be read are refused by their line, but for one that is being written") {
    const test::TemporaryFolder folder;
    const std::filesystem::path path = times_path_in(folder.path());
    CHECK(read_times(path).steps.empty()); // of an early version
    test::write_text(path, "{\"event\":\"start\",\"step\":0,\"time\":1.5}\n{\"event\":\"re");
    CHECK(read_times(path).events.size() == 1);
    for (const char* line : {"7", "{\"step\":1}", "{\"event\":3}", "not JSON",
                             "{\"event\":\"lost\",\"step\":0,\"time\":1,\"lost\":\"x\"}"}) {
        test::write_text(path, "{\"event\":\"start\",\"step\":0,\"time\":1.5}\n" + std::string(line) + "\n");
        CHECK_THROWS_WITH_AS(read_times(path),
                             (path.string() + ":2: is no line of a run's times.jsonl").c_str(), InputError);
    }
}

} // namespace towers
