#include "engine/train/loop.h"

#include "tests/support/devices.h"
#include "tests/support/files.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

constexpr std::uint64_t steps = 5, good_steps = 3;

const LoopOptions loop{.steps = steps,
                       .save_every = 0,
                       .keep = 0,
                       .log_every = 1,
                       .origin = {"cifar10-tutorial", 3, 50, 0, "", test::small_recipe().checksum},
                       .global_batch = 4};

/// Trains with a last tower that is lost after good_steps. Returns the steps that have a checkpoint.
std::vector<std::uint64_t> train_and_lose(const std::vector<std::string>& towers,
                                          const std::filesystem::path& folder, const Dataset& data) {
    test::FailingDevice::Failure failure;
    TrainerOptions options = test::options_for(towers, loop.global_batch);
    test::wrap_tower(options, towers.size() - 1, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::FailingDevice>(std::move(device), failure);
    });
    Trainer trainer(test::small_recipe(), options, data);
    RunDirectory run(folder, Existing::refuse);
    save_checkpoint(trainer, run, loop);
    const auto lose = [&](const Progress& progress) {
        failure.lost = progress.report.step + 1 == good_steps;
    };
    CHECK_THROWS_WITH_AS(train(trainer, run, loop, false, lose), "refused", DeviceError);
    return run.checkpoints();
}

} // namespace

TEST_CASE("a run of several towers loses no step when it loses a device") {
    const Dataset data = test::noise(50);
    const test::TemporaryFolder folder;
    const std::vector<std::string> towers{"cpu", "cpu"};
    CHECK(train_and_lose(towers, folder.path(), data) == std::vector<std::uint64_t>{0, good_steps});

    Trainer resumed(test::small_recipe(), test::options_for(towers, loop.global_batch), data);
    RunDirectory run(folder.path(), Existing::resume);
    resume(resumed, test::small_recipe(), find_checkpoint(folder.path(), {}), loop.origin);
    CHECK(resumed.steps_done() == good_steps);
    train(resumed, run, loop, false, [](const Progress&) {});
    Trainer whole(test::small_recipe(), test::options_for(towers, loop.global_batch), data);
    for (std::uint64_t i = 0; i < steps; ++i) whole.step();
    CHECK(resumed.save().state == whole.save().state);
}

TEST_CASE("a lost device is not asked for the state of a single tower") {
    const test::TemporaryFolder folder;
    CHECK(train_and_lose({"cpu"}, folder.path(), test::noise(50)) == std::vector<std::uint64_t>{0});
}

} // namespace towers
