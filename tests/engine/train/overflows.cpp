#include "tests/engine/train/overflows.h"

#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>
#include <utility>

namespace towers::test {

Recipe pixel_recipe() {
    return parse_recipe("pixel", R"(
[input]
shape = [1, 2, 1]
classes = 2
[network]
layers = [ { name = "logits", kind = "dense", units = 2, stddev = 1e-9 } ]
[pipeline]
values = "normalized"
mean = [0.0]
deviation = [6.103515625e-05]
[optimizer]
kind = "momentum"
learning_rate = 0.1
[averages]
decay = 0.9
[training]
batch = 2
steps = 10
)",
                        "pixel.toml");
}

Dataset pixels(const std::vector<std::uint8_t>& first, const std::vector<std::uint8_t>& second) {
    std::vector<std::uint8_t> values;
    for (std::size_t i = 0; i < first.size(); ++i) {
        values.push_back(first[i]);
        values.push_back(second.empty() ? 0 : second[i]);
    }
    return {{"pixels", {"one", "another"}, {1, 2, 1}},
            std::move(values),
            std::vector<std::uint32_t>(first.size(), 1)};
}

Dataset one_bright_step() {
    std::vector<std::uint8_t> values;
    for (std::uint64_t step = 0; step < steps; ++step)
        for (const std::uint8_t dark : {1, 2}) values.push_back(step == bright_step ? 255 : dark);
    return pixels(values);
}

TrainerOptions in_order(const std::vector<std::string>& towers, unsigned global_batch) {
    TrainerOptions options = options_for(towers, global_batch);
    options.shuffle = options.distort = false;
    options.learning_rate = 1e-7;
    return options;
}

Run run_on(Trainer& trainer, std::uint64_t last, bool ahead) {
    Run run;
    while (trainer.steps_done() < last) {
        const std::uint64_t step = trainer.steps_done();
        const StepReport report = trainer.step(ahead && step + 1 < last);
        CHECK(report.step == step);
        run.losses.push_back(report.loss);
        run.scales.push_back(report.loss_scale.value_or(0));
    }
    run.state = trainer.save();
    return run;
}

void for_each_way(const std::function<void(TrainerOptions options, bool ahead)>& test) {
    for (const std::string& id : device_ids()) {
        CAPTURE(id);
        for (const bool ahead : {false, true}) {
            CAPTURE(ahead);
            for (const Feeding feeding : {Feeding::resident, Feeding::streamed}) {
                CAPTURE(int(feeding));
                TrainerOptions lone = in_order({id});
                lone.feed = {feeding, 1};
                test(lone, ahead);
                lone.micro_batch = 1;
                test(lone, ahead);
                TrainerOptions group = in_order({"cpu", id});
                group.feed = {feeding, 1};
                test(group, ahead);
                group.shares.recorded = {{0, {0, 2}}}; // all examples on one
                test(group, ahead);
            }
        }
    }
}

} // namespace towers::test
