// Denormal numbers count as zero in a step, whatever threads compute it.
#include "tests/support/networks.h"

#include <algorithm>
#include <doctest/doctest.h>

namespace towers {
namespace {

/// The state after a step from a state that is `value`, of either sign, everywhere.
std::vector<float> after_a_step(const std::vector<std::string>& towers, unsigned threads, float value) {
    TrainerOptions options = test::options_for(towers, 6);
    options.open.threads = threads;
    Trainer trainer(test::smooth_recipe("\"batch\""), options, test::noise(12));
    TrainingState state = trainer.save();
    for (const StateSlot& slot : trainer.layout().slots()) {
        const auto values = part(std::span(state.state), slot.range).first(slot.variable->elements());
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? -value : value;
    }
    trainer.load(state);
    trainer.step();
    return trainer.save().state;
}

} // namespace

TEST_CASE("a step computes of denormal parameters and moments what it computes of zeros") {
    for (const std::vector<std::string>& towers :
         {std::vector<std::string>{"cpu"}, std::vector<std::string>{"cpu", "cpu"}})
        for (const unsigned threads : {1u, 2u, 3u, 8u}) {
            CAPTURE(towers.size());
            CAPTURE(threads);
            const std::vector<float> expected = after_a_step(towers, threads, 0);
            CHECK(std::ranges::any_of(expected, [](float value) { return value != 0; }));
            CHECK(after_a_step(towers, threads, 0x1p-130f) == expected);
        }
}

} // namespace towers
