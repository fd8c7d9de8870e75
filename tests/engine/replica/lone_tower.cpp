#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"

#include <doctest/doctest.h>
#include <memory>
#include <string>

namespace towers {

TEST_CASE(
    "if the only device does not answer, the trainer says so from another thread, not before its limit") {
    enum class Time { first_step, later_step, save };
    const test::VirtualClock clock;
    for (const Time time : {Time::first_step, Time::later_step, Time::save}) {
        CAPTURE(int(time));
        const auto silence = std::make_shared<test::Silence>();
        std::string words;
        TrainerOptions options = test::options_for({"gpu"}, 12);
        options.patience = Patience(60, test::time_of(silence));
        options.give_up = [&](const DeviceError& error) {
            words = error.what();
            silence->end(); // otherwise the test would hang too
        };
        options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
            return std::make_unique<test::ScriptedDevice>(
                std::make_unique<test::SimulatedDevice>(std::string(id), [](unsigned) { return 20; }),
                test::hanging(silence));
        };
        Trainer trainer(test::small_recipe(), options, test::noise(50));
        const int before = time == Time::first_step ? 0 : time == Time::later_step ? 3 : 1;
        for (int i = 0; i < before; ++i) trainer.step();
        CHECK(words.empty());
        const double limit = time == Time::first_step   ? trainer.own_tower(0)->flops() / 1e10 + 600
                             : time == Time::later_step ? 20 + 9 * 20 // ten times what it took
                                                        : 600;
        silence->begin({limit - 0.01, 0.02});
        if (time == Time::save)
            trainer.save();
        else
            trainer.step();
        CAPTURE(words);
        CHECK(silence->is_over());
        CHECK(words == (time == Time::first_step   ? "gpu: no answer for 600 s"
                        : time == Time::later_step ? "gpu: no answer for 180 s more than a step should take"
                                                   : "gpu: no answer for 600 s"));
    }
}

} // namespace towers
