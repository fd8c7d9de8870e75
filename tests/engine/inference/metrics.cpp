// The metrics of predictions against scikit-learn's (tests/fixtures/make_metrics.py), and what it has no rule
// for.
#include "backends/error.h"
#include "engine/execution/softmax.h"
#include "engine/inference/metric.h"
#include "tests/engine/inference/drawn.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {
namespace {

using test::check_close, test::draw;

struct Set {
    unsigned classes;
    std::vector<std::uint32_t> labels;
    Predictions predictions;
};

Prediction predict(std::span<const float> scores, std::uint32_t label) {
    return prediction_of(float(-std::log(Softmax(scores).probability(scores[label]))), scores, label);
}

/// As make_set() there.
Set make_set(std::uint64_t number, const nlohmann::json& of) {
    const auto get = [&](const char* key) { return of.at(key).get<unsigned>(); };
    const unsigned classes = get("classes"), examples = get("examples"), present = get("present"),
                   rows = get("rows");
    Set set{classes, {}, Predictions(examples, classes)};
    const auto bits = [&](unsigned row, unsigned column) {
        return draw(number, std::uint64_t(row) * (classes + 2) + column);
    };
    for (unsigned i = 0; i < examples; ++i) {
        const double part = double(bits(i, 0) >> 40) / (1 << 24);
        auto label = std::uint32_t(part * part * present);
        const unsigned row = rows > 0 ? unsigned(bits(i, 1) % rows) : i;
        const std::span<float> scores = set.predictions.all().part(i, 1).scores;
        for (unsigned c = 0; c < classes; ++c)
            scores[c] = float(double(bits(row, c + 2) >> 40) / (1 << 24) * 8 - 4);
        if (rows > 0 && row % 3 == 0) scores[row % classes] = scores[(row + 1) % classes] = 4;
        const auto highest = std::uint32_t(std::ranges::max_element(scores) - scores.begin());
        if (rows > 0 && bits(i, 1) >> 63 == 1 && highest < present) label = highest;
        scores[label] += get("above");
        set.labels.push_back(label);
        set.predictions.each[i] = predict(scores, label);
    }
    return set;
}

MetricValues values_of(const Set& set) {
    const ClassificationReport report(set.labels, set.predictions, set.classes);
    return values_of_metrics({sum_up(set.predictions.each), &report, set.classes});
}

} // namespace

TEST_CASE("metrics are scikit-learn's, with classes missing, equal scores and up to 1000 classes") {
    const nlohmann::json sets =
        nlohmann::json::parse(test::read_text(test::source_folder() / "tests/fixtures/metrics.json"));
    REQUIRE(sets.size() == 20);
    const auto fitting =
        std::ranges::count_if(all_metrics(), [](const Metric& metric) { return metric.fits(false); });
    for (std::size_t number = 0; number < sets.size(); ++number) {
        CAPTURE(number);
        const nlohmann::json& of = sets[number];
        const Set set = make_set(number, of);
        const MetricValues values = values_of(set);
        std::ptrdiff_t compared = 0;
        for (const Metric& metric : all_metrics()) {
            if (!metric.fits(false)) continue;
            CAPTURE(metric.name);
            if (!of.contains(metric.name)) continue;
            const auto found = values.find(metric.name);
            check_close(found != values.end() ? std::optional(found->second) : std::nullopt,
                        of.at(metric.name));
            ++compared;
        }
        CHECK(compared == fitting - 1); // top-5 accuracy is among the following
        for (const auto& [k, expected] : of.at("top_k").items()) {
            CAPTURE(k);
            const Evaluation found = sum_up(set.predictions.each, set.labels.size(), unsigned(std::stoul(k)));
            check_close(found.accuracy_in_few(), expected);
        }
        const ClassificationReport report(set.labels, set.predictions, set.classes);
        for (std::uint32_t c = 0; c < of.at("each").size(); ++c) {
            CAPTURE(c);
            const nlohmann::json& its = of.at("each")[c];
            const ClassFigures& figures = report.confusion.of(c);
            CHECK(figures.examples == its.at("examples").get<std::uint64_t>());
            check_close(figures.precision(), its.at("precision"));
            check_close(figures.recall(), its.at("recall"));
            check_close(figures.f1(), its.at("f1"));
            check_close(report.rankings[c].auc, its.at("auc"));
            check_close(report.rankings[c].average_precision, its.at("average_precision"));
        }
    }
}

TEST_CASE("a network of one class, and predictions without scores") {
    Set set{1, {0, 0, 0}, Predictions(3, 1)};
    for (Prediction& each : set.predictions.each) each = predict(std::vector<float>{2}, 0);
    MetricValues values = values_of(set);
    CHECK(values.at("accuracy") == 1);
    CHECK(values.at("f1_macro") == 1);
    CHECK(values.at("calibration_error") == 0);
    CHECK_FALSE(values.contains("auc_macro")); // there is nothing to tell it from
    CHECK_FALSE(values.contains("top_5_accuracy"));

    set = make_set(0, {{"classes", 2}, {"examples", 50}, {"present", 2}, {"rows", 0}, {"above", 1}});
    const MetricValues whole = values_of(set);
    set.predictions.scores.clear();
    values = values_of(set);
    for (const Metric& metric : all_metrics()) {
        CAPTURE(metric.name);
        CHECK(values.contains(metric.name) == (whole.contains(metric.name) && !metric.needs_scores));
        if (values.contains(metric.name)) CHECK(values.at(metric.name) == whole.at(metric.name));
    }
}

TEST_CASE("predictions whose loss is not finite have no metrics") {
    Evaluation evaluation{.examples = 2, .correct = 1};
    evaluation.loss_sum = std::numeric_limits<double>::quiet_NaN();
    const MetricValues values = values_of_metrics({evaluation, nullptr, 10});
    CHECK(values == MetricValues{{"accuracy", 0.5}, {"top_5_accuracy", 0}});
}

TEST_CASE("a confidence at an edge of the bins belongs to the lower one") {
    // Of three classes: 1/3 is the edge between the fifth bin and the sixth.
    Set set{3, {0, 1, 2, 0}, Predictions(4)};
    for (std::size_t i = 0; i < 4; ++i)
        set.predictions.each[i] = predict(std::vector<float>(3, 1.0f), set.labels[i]);
    CHECK(set.predictions.each[0].confidence == float(1.0 / 3));
    set.predictions.each[3] = {.loss = 2, .predicted = 1, .rank = 1, .confidence = 0.3f}; // in the fifth bin
    const double expected = (3 - (3.0 / 3 + 0.3)) / 4; // of equal scores the label's counts as predicted
    CHECK(values_of(set).at("calibration_error") == doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("an unknown metric is refused, with the nearest one") {
    CHECK(find_metric("f1_macro", "--best-by").name == "f1_macro");
    try {
        find_metric("f1_makro", "--best-by");
        FAIL("it is not known");
    } catch (const UsageError& error) {
        const std::string message = error.what();
        CHECK(message.starts_with("--best-by 'f1_makro': there is no such metric, but 'f1_macro' is one; "
                                  "known are accuracy, "));
        CHECK(message.find('\n') == std::string::npos);
    }
}

} // namespace towers
