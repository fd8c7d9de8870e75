#include "engine/inference/evaluation.h"

#include "engine/execution/softmax.h"
#include "engine/inference/confusion.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

std::vector<Prediction> predictions_of(const std::string& id, const Recipe& recipe, const Dataset& data,
                                       unsigned batch, std::span<const float> state) {
    std::vector<Evaluator> evaluators;
    evaluators.emplace_back(test::device(id), recipe, data, batch);
    return evaluate(evaluators, state).each;
}

} // namespace

TEST_CASE("evaluators share the batches, and only padding counts an example twice") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(25);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<Evaluator> evaluators;
    for (int i = 0; i < 3; ++i) {
        devices.push_back(open_device("cpu", test::open_options()));
        evaluators.emplace_back(*devices.back(), recipe, data, 4);
    }
    const Evaluation whole = sum_up(predictions_of("cpu", recipe, data, 25, state));
    const std::vector<Prediction> predictions = evaluate(evaluators, state).each;
    const Evaluation shared = sum_up(predictions), padded = sum_up(predictions, 28);
    CHECK(shared.examples == 25);
    CHECK(shared.correct == whole.correct);
    CHECK(shared.loss_sum == doctest::Approx(whole.loss_sum));
    CHECK(padded.examples == 28);
    CHECK(padded.loss_sum > shared.loss_sum);
    CHECK(shared.correct_in_few > shared.correct); // of ten classes
}

TEST_CASE("evaluators of several processes find what the same ones find together") {
    const Recipe recipe = test::small_recipe();
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    for (const unsigned records : {1u, 9u, 26u}) { // fewer batches than evaluators, too
        CAPTURE(records);
        const Dataset data = test::noise(records);
        std::vector<std::unique_ptr<Device>> devices;
        std::vector<Evaluator> evaluators;
        for (int i = 0; i < 3; ++i) {
            devices.push_back(open_device("cpu", test::open_options()));
            evaluators.emplace_back(*devices.back(), recipe, data, 4);
        }
        const unsigned classes = recipe.model.classes;
        const Predictions expected = evaluate(evaluators, state, classes);
        REQUIRE(expected.scores.size() == records * classes);
        std::size_t seen = 0;
        for (const Dealing& part : {Dealing{0, 2, 3}, Dealing{2, 1, 3}}) {
            Predictions found =
                evaluate(std::span(evaluators).subspan(part.first, part.count), state, part, classes);
            std::size_t own = 0;
            part.for_each(records, evaluators[0].batch(), [&](std::uint64_t begin, std::uint64_t end) {
                CHECK(begin == part.batch(own++) * evaluators[0].batch());
                for (std::uint64_t i = begin; i < end; ++i) {
                    CHECK(found.each[i].loss == expected.each[i].loss);
                    const std::span<const float> scores = found.all().part(i, 1).scores;
                    CHECK(
                        std::ranges::equal(scores, std::span(expected.scores).subspan(i * classes, classes)));
                    // The loss and the confidence are those of the scores.
                    const Softmax softmax(scores);
                    const double label = softmax.probability(scores[data.labels()[i]]);
                    CHECK(found.each[i].loss == doctest::Approx(-std::log(label)).epsilon(1e-5));
                    CHECK(found.each[i].confidence ==
                          doctest::Approx(softmax.probability(scores[found.each[i].predicted])));
                }
                seen += end - begin;
            });
        }
        CHECK(seen == records);
    }
}

TEST_CASE("each prediction belongs to its record, on every device") {
    const Recipe recipe = test::small_recipe();
    const Dataset data = test::noise(11);
    const std::vector<float> state = initial_state(layout_of(recipe), 5);
    const std::vector<Prediction> expected = predictions_of("cpu", recipe, data, 1, state);
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const std::vector<Prediction> found = predictions_of(id, recipe, data, 4, state);
        REQUIRE(found.size() == 11);
        for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].loss == doctest::Approx(expected[i].loss).epsilon(1e-5));
            CHECK(found[i].predicted == expected[i].predicted);
            CHECK(found[i].rank == expected[i].rank);
            CHECK(found[i].is_among(1) == (found[i].predicted == data.labels()[i]));
        }
    }
}

TEST_CASE("confidences are probabilities of the scores times their scale, of a softmax or a sigmoid") {
    Model model = test::small_recipe().model;
    const std::vector<float> scores{3, -1, 8};
    model.heads[0].logit_scale = 0.125f;
    EvaluatedHead evaluated(model);
    CHECK(evaluated.prediction(1, scores, 2).confidence ==
          doctest::Approx(1 / (1 + std::exp(-0.625) + std::exp(-1.125))).epsilon(1e-6));
    evaluated.head.kind = LossKind::sigmoid;
    CHECK(evaluated.prediction(1, scores, 2).confidence ==
          doctest::Approx(1 / (1 + std::exp(-1.0))).epsilon(1e-6));
}

TEST_CASE("an example whose scores are not finite is not correct, not even among five") {
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    std::vector<float> state = initial_state(layout, 5);
    state[layout.find("softmax_linear/biases").range.offset / sizeof(float)] =
        std::numeric_limits<float>::quiet_NaN();
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const Evaluation result = sum_up(predictions_of(id, recipe, test::noise(20), 8, state));
        CHECK(std::isnan(result.cross_entropy()));
        CHECK(result.correct == 0);
        CHECK(result.correct_in_few == 0);
    }
}

TEST_CASE("precision and recall count a class's examples, and those taken for it") {
    // labels 0 0 0 1 1, taken for 0 1 1 1 2; there is no example of class 3
    const std::vector<std::uint32_t> labels{0, 0, 0, 1, 1}, predicted{0, 1, 1, 1, 2};
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < labels.size(); ++i)
        predictions.push_back(
            {.loss = 1, .predicted = predicted[i], .rank = labels[i] == predicted[i] ? 0u : 1u});
    const Confusion confusion(labels, predictions, 4);
    CHECK(confusion.count(0, 1) == 2);
    CHECK(confusion.count(1, 0) == 0);
    CHECK(confusion.of(0).precision() == 1.0);
    CHECK(*confusion.of(0).recall() == doctest::Approx(1.0 / 3));
    CHECK(*confusion.of(1).precision() == doctest::Approx(1.0 / 3));
    CHECK(confusion.of(1).recall() == 0.5);
    CHECK(confusion.of(2).precision() == 0.0);
    CHECK_FALSE(confusion.of(2).recall().has_value());
    CHECK_FALSE(confusion.of(3).precision().has_value());
    CHECK(*confusion.of(1).f1() == doctest::Approx(0.4));
    CHECK(confusion.of(2).f1() == 0.0);
    CHECK_FALSE(confusion.of(3).f1().has_value());
    CHECK(confusion.most_mistaken_for(0) == 1u);
    CHECK(confusion.most_mistaken_for(1) == 2u);
    CHECK_FALSE(confusion.most_mistaken_for(2).has_value());
}

} // namespace towers
