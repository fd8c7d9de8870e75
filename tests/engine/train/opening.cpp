#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include "engine/train/trainer.h"

#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

/// When a device fails for good.
enum class Fails { when_opened, at_the_first_allocation, at_the_first_recording, at_the_first_wait };

/// Two towers on the CPU, of which the second fails.
template<class Error>
TrainerOptions with_failing(Fails when) {
    TrainerOptions options = test::options_for({"cpu", "gpu"}, 12);
    options.outlive_devices = true;
    options.open_device = [when](std::string_view id, const OpenOptions& open) -> std::unique_ptr<Device> {
        auto device = towers::open_device("cpu", open);
        if (id == "cpu") return device;
        const auto fail = [] { throw Error("gpu: does not work"); };
        if (when == Fails::when_opened) fail();
        test::Script script{.id = "gpu"};
        if (when == Fails::at_the_first_allocation) script.allocate = [=](auto...) { fail(); };
        if (when == Fails::at_the_first_recording) script.record = [=](auto&) { fail(); };
        if (when == Fails::at_the_first_wait) script.wait = fail;
        return std::make_unique<test::ScriptedDevice>(std::move(device), std::move(script));
    };
    return options;
}

constexpr Fails all[] = {Fails::when_opened, Fails::at_the_first_allocation, Fails::at_the_first_recording,
                         Fails::at_the_first_wait};

} // namespace

TEST_CASE(
    "a tower whose device is lost before the first step is dropped in it, and the others take its share") {
    const auto data = test::noise(50);
    Trainer alone(test::small_recipe(), test::options_for({"cpu"}, 12), data);
    for (int i = 0; i < 3; ++i) alone.step();
    for (const Fails when : all)
        for (const bool automatic : {false, true}) {
            CAPTURE(int(when));
            CAPTURE(automatic);
            TrainerOptions options = with_failing<DeviceLost>(when);
            options.shares.automatic = automatic;
            Trainer trainer(test::small_recipe(), options, data);
            std::string notices = trainer.probe();
            for (int i = 0; i < 3; ++i) notices += trainer.step().notice;
            CHECK(trainer.has_lost(1));
            CHECK_MESSAGE(notices.find("tower_1 (gpu) failed and is dropped") != std::string::npos, notices);
            CHECK_MESSAGE(notices.find("gpu: does not work") != std::string::npos, notices);
            CHECK(trainer.last_shares() == std::vector<unsigned>{12, 0});
            const std::vector<float> state = trainer.save().state, expected = alone.save().state;
            for (std::size_t i = 0; i < state.size(); ++i)
                REQUIRE(state[i] == doctest::Approx(expected[i]).epsilon(1e-4));
        }
}

TEST_CASE("a device that cannot be opened, or the only one that is lost, ends the run before it begins") {
    const auto data = test::noise(50);
    for (const Fails when : all) {
        CAPTURE(int(when));
        CHECK_THROWS_WITH_AS(Trainer(test::small_recipe(), with_failing<DeviceError>(when), data),
                             "gpu: does not work", DeviceError);
        TrainerOptions lone = with_failing<DeviceLost>(when);
        lone.towers = {"gpu"};
        CHECK_THROWS_WITH_AS(Trainer(test::small_recipe(), lone, data), "gpu: does not work", DeviceLost);
        TrainerOptions stopping = with_failing<DeviceLost>(when);
        stopping.outlive_devices = false;
        CHECK_THROWS_WITH_AS(Trainer(test::small_recipe(), stopping, data), "gpu: does not work", DeviceLost);
    }
}

} // namespace towers
