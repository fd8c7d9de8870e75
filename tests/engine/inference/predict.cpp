#include "engine/inference/predict.h"

#include "backends/error.h"
#include "engine/inference/evaluation.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace towers {

TEST_CASE("the most probable classes come first, and of equal ones the first") {
    const std::vector<float> logits{1, 3, -2, 3, 0};
    const std::vector<ClassProbability> all = most_probable(logits, 9);
    REQUIRE(all.size() == 5);
    const std::vector<std::uint32_t> labels{1, 3, 0, 4, 2};
    double sum = 0, whole = 0;
    for (const float each : logits) whole += std::exp(double(each));
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].label == labels[i]);
        CHECK(all[i].probability == doctest::Approx(std::exp(double(logits[labels[i]])) / whole));
        sum += all[i].probability;
    }
    CHECK(sum == doctest::Approx(1));
    CHECK(most_probable(logits, 2).size() == 2);
    CHECK(most_probable(logits, 2)[1].label == 3);
    // Scores whose exponentials are beyond a double's range
    const std::vector<ClassProbability> large = most_probable(std::vector<float>{3e38f, -3e38f}, 2);
    CHECK(large[0].probability == 1);
    CHECK(large[1].probability == 0);
}

TEST_CASE("batches leave no device without work, and read few records twice") {
    CHECK(batch_for(1, 128, 1) == 1);
    CHECK(batch_for(5, 128, 1) == 5);
    CHECK(batch_for(128, 128, 1) == 32);
    CHECK(batch_for(129, 128, 1) == 40);
    CHECK(batch_for(10'000, 128, 1) == 128); // as an evaluation
    CHECK(batch_for(100, 128, 4) == 8);
    CHECK(batch_for(3, 128, 4) == 3); // small ones are not divided further than by 8
    CHECK(batch_for(1'000, 6, 1) == 6);
}

TEST_CASE("every device gives the scores of an evaluation, and several divide the batches") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(43);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    const unsigned batch = 4;
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        std::vector<Evaluator> evaluators;
        evaluators.emplace_back(test::device(id), recipe, data, batch);
        const std::vector<Prediction> expected = evaluate(evaluators, state).each;
        for (const unsigned passes_wanted : {1u, 3u}) {
            std::vector<std::unique_ptr<Device>> devices;
            std::vector<ForwardPass> passes;
            for (unsigned i = 0; i < passes_wanted; ++i) {
                devices.push_back(test::reuse_device(id, test::open_options()));
                passes.push_back(streaming_pass(*devices.back(), recipe, data.image_size(), batch));
            }
            std::mutex mutex;
            std::map<std::uint64_t, std::vector<float>> seen;
            predict(passes, state, data, 2, [&](std::uint64_t first, std::span<const float> logits) {
                const std::scoped_lock lock(mutex);
                CHECK(seen.try_emplace(first, logits.begin(), logits.end()).second);
            });
            REQUIRE(seen.size() == 11);
            for (std::uint32_t record = 0; record < 43; ++record) {
                const std::vector<float>& logits = seen.at(record / batch * batch);
                const auto classes = most_probable(std::span(logits).subspan(record % batch * 10, 10), 10);
                CHECK(classes[0].label == expected[record].predicted);
                const auto own = std::ranges::find(classes, data.labels()[record], &ClassProbability::label);
                CHECK(-std::log(own->probability) == doctest::Approx(expected[record].loss).epsilon(1e-5));
            }
        }
    }
}

TEST_CASE("an error of one thread ends the others") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(400);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<ForwardPass> passes;
    for (int i = 0; i < 2; ++i) {
        devices.push_back(open_device("cpu", test::open_options()));
        passes.push_back(streaming_pass(*devices.back(), recipe, data.image_size(), 1));
    }
    std::mutex mutex;
    std::size_t seen = 0;
    const auto see = [&](std::uint64_t first, std::span<const float>) {
        const std::scoped_lock lock(mutex);
        ++seen;
        if (first == 3) throw InputError("enough");
    };
    CHECK_THROWS_WITH_AS(predict(passes, state, data, 1, see), "enough", InputError);
    CHECK(seen < 400);
}

} // namespace towers
