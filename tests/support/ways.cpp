#include "tests/support/ways.h"

#include "engine/train/initial.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace towers::test {

std::vector<Way> ways_on(const std::string& id) {
    return {{"one tower", {id}},
            {"micro-batches", {id}, {}, 5},
            {"streamed", {id}, {}, 0, Feeding::streamed},
            {"three uneven towers", {id, "cpu", id}, {7, 3, 2}},
            {"uneven towers in micro-batches, streamed", {id, "cpu", id}, {7, 3, 2}, 2, Feeding::streamed},
            {"one tower that has all", {id, id}, {1, 0}}};
}

TrainerOptions options_of(const Way& way, bool shuffle, unsigned batch) {
    TrainerOptions options = options_for(way.towers, batch);
    options.shares.weights = way.shares;
    options.micro_batch = way.micro_batch;
    options.feed = {way.feeding, way.feeding == Feeding::streamed ? 2u : 0u};
    options.shuffle = shuffle;
    return options;
}

void check_losses(const TensorFile& file, const std::filesystem::path& path, const std::string& name,
                  const Recipe& recipe, const DataSource& data, std::uint64_t seed) {
    for (const std::string& id : device_ids())
        for (const Way& way : ways_on(id)) {
            INFO(name, ", ", way.name, " on ", id);
            TrainerOptions options = options_of(way, false);
            options.seed = seed;
            Trainer trainer(recipe, options, data);
            trainer.load(from_initial(tensors_under(file, "init/"), trainer.layout(), path));
            const std::vector<float>& expected = file.tensors.at("losses/" + name).values;
            REQUIRE(expected.size() == 20);
            double worst = 0;
            for (std::size_t step = 0; step < expected.size(); ++step) {
                const StepReport report = trainer.step(step > 0 && step + 1 < expected.size());
                worst = std::max(worst, std::abs(double(report.loss) - expected[step]));
                if (step > 0) continue;
                const std::vector<float> gradients = trainer.gradients();
                for (const VariableSlot& slot : trainer.layout().variables)
                    CHECK(relative_norm(
                              std::span(gradients).subspan(slot.range.offset / sizeof(float),
                                                           slot.variable.elements()),
                              file.tensors.at("gradient/" + name + "/" + slot.variable.name).values) < 1e-5);
            }
            CHECK(worst < 1e-5);
        }
}

void check_any_division(const Recipe& recipe, const DataSource& data, unsigned batch) {
    Trainer one(recipe, options_of({"one tower", {"cpu"}}, true, batch), data);
    std::vector<TrainingState> states;
    std::vector<std::vector<float>> gradients;
    for (int step = 0; step < 6; ++step) {
        states.push_back(one.save());
        one.step();
        gradients.push_back(one.gradients());
    }
    for (const std::string& id : device_ids())
        for (const Way& way : ways_on(id)) {
            INFO(way.name, " on ", id);
            Trainer divided(recipe, options_of(way, true, batch), data);
            for (std::size_t step = 0; step < states.size(); ++step) {
                divided.load(states[step]);
                divided.step();
                CHECK(relative_norm(divided.gradients(), gradients[step]) < 1e-5);
            }
        }
}

void check_goes_on(const Recipe& recipe, const DataSource& data, int half, int end) {
    for (const Way& way : ways_on("cpu")) {
        INFO(way.name);
        Trainer whole(recipe, options_of(way, true), data);
        TrainingState before;
        for (int step = 0; step < end; ++step) {
            if (step == half) before = whole.save();
            whole.step();
        }
        Trainer rest(recipe, options_of(way, true), data);
        rest.load(before);
        for (int step = half; step < end; ++step) rest.step();
        CHECK(rest.save().state == whole.save().state);
    }
}

} // namespace towers::test
