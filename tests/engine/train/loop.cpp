#include "engine/train/loop.h"

#include "backends/error.h"
#include "engine/observers/metrics.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace towers {
namespace {

constexpr std::uint64_t steps = 5, good_steps = 3;

const LoopOptions loop{.steps = steps,
                       .save_every = 0,
                       .keep = 0,
                       .log_every = 1,
                       .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
                       .global_batch = 4};

/// Does something after each step, and remembers the warnings.
struct Watcher final : Observer {
    explicit Watcher(std::function<void(const Progress&)> after_step = {}) : after(std::move(after_step)) {}
    std::string place() const override { return "nowhere"; }
    bool observe(const Progress& progress) override {
        if (after) after(progress);
        return false;
    }
    void warn(const std::string& line) override { warnings.push_back(line); }

    std::function<void(const Progress&)> after;
    std::vector<std::string> warnings;
};

/// Trains until the last tower is lost after good_steps. Returns the steps that have a checkpoint.
std::vector<std::uint64_t> train_and_lose(const std::vector<std::string>& towers,
                                          const std::filesystem::path& folder, const Dataset& data) {
    test::Failure failure;
    TrainerOptions options = test::options_for(towers, loop.global_batch);
    test::wrap_tower(options, towers.size() - 1, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure));
    });
    Trainer trainer(test::small_recipe(), options, data);
    RunDirectory run(folder, Existing::refuse);
    save_checkpoint(trainer, run, loop);
    Watcher watcher([&](const Progress& progress) { failure.lost = progress.report.step + 1 == good_steps; });
    try {
        train(trainer, run, loop, false, {&watcher});
        FAIL_CHECK("the device was not lost");
    } catch (const DeviceError& error) {
        CHECK(error.what() == "refused; the last checkpoint is " + latest_checkpoint(run.path()).string() +
                                  ": go on from it with --resume");
    }
    CHECK(watcher.warnings.empty());
    return checkpoint_steps(run.path());
}

} // namespace

TEST_CASE("a run with several towers loses no step when it loses a device") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    const std::vector<std::string> towers{"cpu", "cpu"};
    CHECK(train_and_lose(towers, folder.path(), data) == std::vector<std::uint64_t>{0, good_steps});

    Trainer resumed(test::small_recipe(), test::options_for(towers, loop.global_batch), data);
    RunDirectory run(folder.path(), Existing::resume);
    resume(resumed, test::small_recipe(), find_checkpoint(folder.path(), {}), loop.origin);
    CHECK(resumed.steps_done() == good_steps);
    Watcher watcher;
    train(resumed, run, loop, false, {&watcher});
    CHECK(watcher.warnings.empty());
    Trainer whole(test::small_recipe(), test::options_for(towers, loop.global_batch), data);
    for (std::uint64_t i = 0; i < steps; ++i) whole.step();
    CHECK(resumed.save().state == whole.save().state);
}

TEST_CASE("a lost device is not asked for the state of a single tower") {
    const test::TemporaryFolder folder;
    CHECK(train_and_lose({"cpu"}, folder.path(), test::noise(50)) == std::vector<std::uint64_t>{0});
}

TEST_CASE("a save without memory ends no run; one that loses the device names the last checkpoint") {
    const Dataset data = test::noise(50);
    LoopOptions options = loop;
    options.save_every = 1;
    for (const bool lost : {false, true}) {
        CAPTURE(lost);
        const test::TemporaryFolder folder;
        std::function<void()> before;
        TrainerOptions of_trainer = test::options_for({"cpu"}, loop.global_batch);
        test::wrap_tower(of_trainer, 0, [&](std::unique_ptr<Device> device) {
            return std::make_unique<test::ScriptedDevice>(
                std::move(device), test::Script{.allocate = [&](std::size_t, std::uint64_t) {
                    if (before) before();
                }});
        });
        Trainer trainer(test::small_recipe(), of_trainer, data);
        RunDirectory run(folder.path(), Existing::refuse);
        save_checkpoint(trainer, run, options);
        Watcher watcher([&](const Progress& progress) {
            if (progress.report.step == 1)
                before = [&] { lost ? throw DeviceLost("lost") : throw OutOfMemory("full"); };
            if (progress.report.step == 2) before = nullptr;
        });
        const std::vector<std::string>& warnings = watcher.warnings;
        const auto train_on = [&] { train(trainer, run, options, false, {&watcher}); };
        if (lost) {
            const std::string words = "lost; the last checkpoint is " + run.checkpoint_path(1).string() +
                                      ": go on from it with --resume";
            CHECK_THROWS_WITH_AS(train_on(), words.c_str(), DeviceLost);
            continue;
        }
        train_on();
        REQUIRE(warnings.size() == 2);
        CHECK(warnings[0] ==
              "cannot write " + run.checkpoint_path(2).string() +
                  ": there is not enough memory; training goes on and tries again at the next save");
        CHECK(warnings[1] == "saved again: " + run.checkpoint_path(3).string());
        CHECK(checkpoint_steps(run.path()) == std::vector<std::uint64_t>{0, 1, 3, 4, 5});
    }
}

TEST_CASE("a loop of links in place of the run's folder for a while ends no run") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    LoopOptions options = loop;
    options.save_every = 1;
    Trainer trainer(test::small_recipe(), test::options_for({"cpu"}, loop.global_batch), data);
    RunDirectory run(folder / "run", Existing::refuse);
    save_checkpoint(trainer, run, options);
    Watcher watcher([&](const Progress& progress) {
        if (progress.report.step == 1) {
            std::filesystem::rename(folder / "run", folder / "elsewhere");
            std::filesystem::create_symlink("run", folder / "run");
        }
        if (progress.report.step == 2) {
            std::filesystem::remove(folder / "run");
            std::filesystem::rename(folder / "elsewhere", folder / "run");
        }
    });
    train(trainer, run, options, false, {&watcher});
    const std::vector<std::string>& warnings = watcher.warnings;
    REQUIRE(warnings.size() == 2);
    CHECK(warnings[0].starts_with("cannot write " + run.checkpoint_path(2).string() +
                                  ": Too many levels of symbolic links"));
    CHECK(warnings[1] == "saved again: " + run.checkpoint_path(3).string());
}

TEST_CASE("the trial before the first step stops when told to, and names the last checkpoint if it fails") {
    const Dataset data = test::noise(200);
    TrainerOptions options = test::options_for({"one", "another"}, 100);
    options.shares.automatic = true;
    test::Failure failure;
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::ScriptedDevice>(
            std::make_unique<test::SimulatedDevice>(
                std::string(id),
                [id = std::string(id)](unsigned examples) { return (id == "one" ? 1e-5 : 1e-3) * examples; }),
            test::failing(failure));
    };
    for (const bool fails : {false, true}) {
        CAPTURE(fails);
        const test::TemporaryFolder folder;
        Trainer trainer(test::small_recipe(), options, data);
        RunDirectory run(folder.path(), Existing::refuse);
        save_checkpoint(trainer, run, loop);
        if (fails) {
            failure.lost = true;
            const std::string words = "refused; the last checkpoint is " + run.checkpoint_path(0).string() +
                                      ": go on from it with --resume";
            CHECK_THROWS_WITH_AS(probe(trainer, run, false), words.c_str(), DeviceError);
            continue;
        }
        CHECK(probe(trainer, run, true).empty());
        CHECK(trainer.shares() == std::vector{50u, 50u});
        CHECK(trainer.save().state == initial_state(trainer.layout(), trainer.options().seed));
    }
}

TEST_CASE("a disk that is full for a while costs neither the training nor a line of its metrics") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    LoopOptions options = loop;
    options.steps = 9;
    options.save_every = 2;
    Watcher watcher;
    const std::vector<std::string>& warnings = watcher.warnings;
    /// Without room in the steps from `full` to `room`.
    const auto train_without_room = [&](const char* name, std::uint64_t full, std::uint64_t room) {
        RunDirectory run(folder / name, Existing::refuse);
        Trainer trainer(test::small_recipe(), test::options_for({"cpu"}, loop.global_batch), data);
        save_checkpoint(trainer, run, options);
        std::optional<test::FullDisk> disk;
        Metrics metrics(run, options.origin.records);
        watcher.warnings.clear();
        watcher.after = [&](const Progress& progress) {
            if (progress.report.step == full) disk.emplace(100);
            if (progress.report.step == room) disk.reset();
        };
        train(trainer, run, options, false, {&metrics, &watcher});
    };
    train_without_room("whole", 99, 99);
    CHECK(warnings.empty());
    train_without_room("run", 0, 6);
    const std::string metrics = (folder / "run/metrics.jsonl").string(),
                      checkpoint = (folder / "run/model.ckpt-").string(),
                      on = "; training goes on and tries again at the next save";
    CAPTURE(doctest::toString(warnings.size()));
    REQUIRE(warnings.size() == 4);
    CHECK(warnings[0].starts_with("cannot write " + metrics + ": File too large; "));
    CHECK(warnings[0].ends_with(on));
    CHECK(warnings[1].starts_with("cannot write " + checkpoint + "2.safetensors: File too large; "));
    CHECK(warnings[1].ends_with(on));
    CHECK(warnings[2] == "saved again: " + metrics);
    CHECK(warnings[3] == "saved again: " + checkpoint + "8.safetensors");
    CHECK(checkpoint_steps(folder / "run") == std::vector<std::uint64_t>{0, 8, 9});
    for (const char* file : {"metrics.jsonl", "model.ckpt-9.safetensors"}) {
        const bool same = test::read_text(folder / "run" / file) == test::read_text(folder / "whole" / file);
        CHECK(same);
    }
    // The last save counts.
    const std::string error = test::input_error([&] { train_without_room("late", 3, 99); });
    CHECK(error.starts_with("cannot write " + (folder / "late/model.ckpt-9.safetensors").string()));
    CHECK(error.ends_with("; what was trained after " + (folder / "late/model.ckpt-2.safetensors").string() +
                          " is lost"));
    CHECK(warnings.size() == 2);
}

namespace {

/// Puts down all that the loop tells it.
class Diary final : public Observer {
public:
    Diary(std::string name, std::vector<std::string>& entries) : name_(std::move(name)), entries_(entries) {}
    std::string place() const override { return name_ + ".txt"; }
    bool observe(const Progress& progress) override {
        enter(std::to_string(progress.report.step));
        if (progress.report.step >= fails_from && progress.report.step < works_from)
            throw InputError("cannot write " + place());
        return true;
    }
    void sync() override { enter("sync"); }
    void warn(const std::string& line) override { enter(line); }
    void end() override { enter("end"); }

    std::uint64_t fails_from = ~0ull, works_from = ~0ull;

private:
    void enter(const std::string& what) { entries_.push_back(name_ + ": " + what); }

    std::string name_;
    std::vector<std::string>& entries_;
};

std::vector<std::string> read_diaries(const std::function<void(Diary& first)>& prepare,
                                      const TrainerOptions& trainer_options) {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    LoopOptions options = loop;
    options.steps = 3;
    options.save_every = 2;
    Trainer trainer(test::small_recipe(), trainer_options, data);
    RunDirectory run(folder.path(), Existing::refuse);
    std::vector<std::string> entries;
    Diary one("one", entries), two("two", entries);
    prepare(one);
    try {
        train(trainer, run, options, false, {&one, &two});
    } catch (const DeviceError&) {
        entries.push_back("lost");
    }
    return entries;
}

} // namespace

TEST_CASE("observers hear of each step in their order, of each save before it, and of the end") {
    using Entries = std::vector<std::string>;
    TrainerOptions options = test::options_for({"cpu"}, loop.global_batch);
    const auto nothing = [](Diary&) {};
    CHECK(read_diaries(nothing, options) == Entries{"one: 0", "two: 0", "one: 1", "two: 1", "one: sync",
                                                    "two: sync", "one: 2", "two: 2", "one: sync", "two: sync",
                                                    "one: end", "two: end"});
    const auto fail = [](Diary& diary) {
        diary.fails_from = 0;
        diary.works_from = 2;
    };
    const std::string failure = "cannot write one.txt; training goes on and tries again at the next save";
    CHECK(read_diaries(fail, options) == Entries{"one: 0", "one: " + failure, "two: " + failure, "two: 0",
                                                 "one: 1", "two: 1", "one: sync", "one: saved again: one.txt",
                                                 "two: saved again: one.txt", "two: sync", "one: 2", "two: 2",
                                                 "one: sync", "two: sync", "one: end", "two: end"});

    test::Failure failure_of_device;
    test::wrap_tower(options, 0, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::failing(failure_of_device));
    });
    const auto lose = [&](Diary&) { failure_of_device.lost = true; };
    CHECK(read_diaries(lose, options) == Entries{"one: sync", "two: sync", "one: end", "two: end", "lost"});
}

} // namespace towers
