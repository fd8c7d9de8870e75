#include "engine/train/trainer.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <doctest/doctest.h>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace towers {

TEST_CASE("the towers' own times decide automatic shares: a slow one never gets an even share") {
    const test::VirtualClock clock;
    const Dataset data = test::noise(200);
    TrainerOptions options = test::options_for({"fast", "slow"}, 100);
    options.shares.automatic = true;
    std::atomic<unsigned> largest = 0; // recorded on the slow one
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        const bool slow = id == "slow";
        return std::make_unique<test::SimulatedDevice>(std::string(id), [&, slow](unsigned examples) {
            if (slow) largest = std::max(largest.load(), examples);
            return slow ? 3e-2 * examples : 2e-3 + 1e-4 * examples;
        });
    };
    Trainer trainer(test::small_recipe({4, 4, 4, 4}), options, data);
    CHECK(trainer.shares() == std::vector{50u, 50u});
    std::string notices;
    for (int i = 0; i < 5; ++i) {
        const StepReport report = trainer.step();
        notices += report.notice;
        CHECK(std::accumulate(report.shares.begin(), report.shares.end(), 0u) == 100);
        CHECK(std::isnan(report.tower_losses[1]) == (report.shares[1] == 0));
    }
    CHECK(notices.starts_with("a short trial of each tower gives shares of "));
    CHECK(largest < 50);
}

TEST_CASE("the trial before the first step does not affect the results") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe :
         {test::small_recipe(), test::smooth_recipe("\"batch\""), test::smooth_recipe("4")})
        for (const std::string& id : test::device_ids()) {
            CAPTURE(recipe.name);
            CAPTURE(id);
            TrainerOptions options = test::options_for({"cpu", id}, 40);
            options.shares.automatic = true;
            Trainer automatic(recipe, options, data);
            const TrainingState before = automatic.save();
            automatic.probe();
            CHECK(automatic.save().state == before.state);
            CHECK(automatic.probe().empty());
            std::vector<SharesFrom> shares;
            for (std::uint64_t step = 0; step < 4; ++step) shares.push_back({step, automatic.step().shares});
            options.shares = {.automatic = false, .weights = {}, .recorded = shares};
            Trainer repeated(recipe, options, data);
            for (int step = 0; step < 4; ++step) repeated.step();
            CHECK(repeated.save().state == automatic.save().state);
            // A run that resumes with known shares has no trial.
            options.shares = {.automatic = true, .weights = {}, .recorded = {{0, {28, 12}}}};
            Trainer again(recipe, options, data);
            CHECK(again.probe().empty());
            CHECK(again.step().shares == std::vector{28u, 12u});
        }
}

} // namespace towers
