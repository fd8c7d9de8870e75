#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <string>

namespace towers {

TEST_CASE("if the only device does not answer, the trainer says so from another thread") {
    enum class Time { first_step, later_step, save };
    for (const Time time : {Time::first_step, Time::later_step, Time::save}) {
        CAPTURE(int(time));
        std::atomic<bool> hang = false;
        std::string words;
        TrainerOptions options = test::options_for({"gpu"}, 12);
        options.device_timeout = time == Time::save ? 0.2 : 0.1;
        options.give_up = [&](const DeviceError& error) {
            words = error.what();
            hang = false; // otherwise the test would hang too
            hang.notify_all();
        };
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            return std::make_unique<test::ScriptedDevice>(
                std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 0.15; }),
                test::hanging(hang));
        };
        Trainer trainer(test::small_recipe(), options, test::noise(50));
        // The limits of load() and of the steps before are a second and more, also on a busy machine.
        const int before = time == Time::first_step ? 0 : time == Time::later_step ? 3 : 1;
        for (int i = 0; i < before; ++i) trainer.step();
        CHECK(words.empty());
        hang = true;
        if (time == Time::save)
            trainer.save();
        else
            trainer.step();
        CAPTURE(words);
        CHECK(words.starts_with(time == Time::save ? "gpu: no answer for 2 s" : "gpu: no answer for 1"));
        CHECK(words.ends_with(" s more than a step should take") == (time == Time::later_step));
        CHECK_FALSE(hang);
    }
}

} // namespace towers
