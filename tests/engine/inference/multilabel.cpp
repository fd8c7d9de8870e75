// The metrics of examples with several labels against scikit-learn's (tests/fixtures/make_multilabel.py), and
// thresholds.
#include "backends/error.h"
#include "engine/inference/metric.h"
#include "engine/inference/multilabel_report.h"
#include "engine/inference/predict.h"
#include "engine/inference/thresholds.h"
#include "tests/engine/inference/drawn.h"
#include "tests/support/files.h"

#include <cmath>
#include <cstdint>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace towers {
namespace {

using test::check_close, test::draw;

struct Set {
    LabelSets labels;
    std::vector<float> logits;
    std::vector<double> thresholds;
};

/// As make_set() there.
Set make_set(std::uint64_t number, const nlohmann::json& of) {
    const auto get = [&](const char* key) { return of.at(key).get<unsigned>(); };
    const unsigned classes = get("classes"), rows = get("rows"), above = get("above");
    Set set;
    for (unsigned i = 0; i < get("examples"); ++i) {
        const auto bits = [&](std::uint64_t row, unsigned column) {
            return draw(number + 100, row * (2 * classes + 1) + column);
        };
        const auto part = [&](std::uint64_t row, unsigned column) {
            return double(bits(row, column) >> 40) / (1 << 24);
        };
        const std::uint64_t last = bits(i, 2 * classes), row = rows > 0 ? last / 8 % rows : i;
        std::vector<std::uint32_t> labels;
        for (unsigned c = 0; c < classes; ++c) {
            bool has = part(i, c) < double(c + 1) / (2 * classes) && last % 8 != 0;
            if (c == 0 && get("missing") == 1) has = false;
            if (c == classes - 1 && get("whole") == 1) has = true;
            if (has) labels.push_back(c);
            set.logits.push_back(float(part(row, classes + c) * 8 - 4) + float(has) * float(above));
        }
        set.labels.add(labels);
    }
    for (unsigned c = 0; c < classes; ++c)
        set.thresholds.push_back(get("by_class") == 1 ? 0.25 + double(c) / (2 * classes) : usual_threshold);
    return set;
}

std::optional<double> value_of(const MetricValues& values, const std::string& name) {
    const auto found = values.find(name);
    return found != values.end() ? std::optional(found->second) : std::nullopt;
}

} // namespace

TEST_CASE("metrics of several labels are scikit-learn's, with ties, classes of none and all, and no labels") {
    const nlohmann::json sets =
        nlohmann::json::parse(test::read_text(test::source_folder() / "tests/fixtures/multilabel.json"));
    REQUIRE(sets.size() == 20);
    for (std::size_t number = 0; number < sets.size(); ++number) {
        CAPTURE(number);
        const nlohmann::json& of = sets[number];
        const Set set = make_set(number, of);
        unsigned without = 0;
        for (std::size_t i = 0; i < set.labels.size(); ++i) without += set.labels.of(i).empty();
        CHECK(without == of.at("without").get<unsigned>());
        const auto classes = unsigned(set.thresholds.size());
        const SigmoidScores scores{set.logits, classes};
        const MultilabelReport report(set.labels, scores, set.thresholds);
        const Evaluation evaluation{.examples = set.labels.size(), .loss_sum = 1};
        const MetricValues values = values_of_metrics({evaluation, nullptr, classes, true, &report});
        unsigned compared = 0;
        for (const Metric& metric : all_metrics()) {
            if (!metric.fits(true) || metric.name == "cross_entropy") continue;
            CAPTURE(metric.name);
            check_close(value_of(values, metric.name), of.at(metric.name));
            ++compared;
        }
        CHECK(compared == 15);
        for (const Metric& metric : all_metrics())
            if (!metric.fits(true)) CHECK_FALSE(values.contains(metric.name));
        const MultilabelReport best(set.labels, scores, best_thresholds(set.labels, scores, classes));
        for (std::uint32_t c = 0; c < of.at("each").size(); ++c) {
            CAPTURE(c);
            const nlohmann::json& its = of.at("each")[c];
            const ClassFigures& figures = report.classes[c];
            CHECK(figures.examples == its.at("examples").get<std::uint64_t>());
            check_close(figures.precision(), its.at("precision"));
            check_close(figures.recall(), its.at("recall"));
            check_close(figures.f1(), its.at("f1"));
            check_close(report.rankings[c].auc, its.at("auc"));
            check_close(report.rankings[c].average_precision, its.at("average_precision"));
            const std::vector<std::uint64_t> confusion{report.true_negatives(c),
                                                       figures.predicted - figures.correct,
                                                       figures.examples - figures.correct, figures.correct};
            CHECK(nlohmann::json(confusion) == its.at("confusion"));
            if (its.at("best_f1").is_null())
                CHECK(best.thresholds[c] == usual_threshold);
            else
                check_close(best.classes[c].f1(), its.at("best_f1"));
        }
    }
}

TEST_CASE("the network's classes before and after the data's do not count, and logits are scaled") {
    const std::vector<float> wide{9, 1, -1, 9, /**/ 9, -1, 2, 9}, narrow{0.5f, -0.5f, -0.5f, 1};
    LabelSets sets;
    sets.add(std::vector<std::uint32_t>{0});
    sets.add(std::vector<std::uint32_t>{});
    const std::vector<double> thresholds{0.5, sigmoid(2) + 1e-9};
    const MultilabelReport all(sets, {wide, 4, 1, 1}, thresholds),
        scaled(sets, {narrow, 2, 0, 2}, thresholds);
    CHECK(all.subset_accuracy() == 1);
    CHECK(all.hamming_loss() == 0);
    CHECK(scaled.subset_accuracy() == 1);
    CHECK(MultilabelReport(sets, {wide, 4, 1, 1}, {0.5, sigmoid(2)}).subset_accuracy() == 0.5);
    CHECK(sigmoid(0) == 0.5);
    CHECK(sigmoid(-1000) == 0);
    CHECK(sigmoid(1000) == 1);
}

TEST_CASE("scores and thresholds at their ends") {
    LabelSets sets;
    for (const bool has : {true, true, false})
        sets.add(has ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{});
    // The best threshold lies between the second and the third, and of the worst order below all.
    const std::vector<float> sorted{3, 1, -1}, turned{-1000, -900, 1}, equal{80, 80, 80};
    const double middle = best_thresholds(sets, {sorted, 1}, 1)[0];
    CHECK(middle == doctest::Approx((sigmoid(1) + sigmoid(-1)) / 2));
    for (const std::vector<float>& logits : {sorted, turned, equal}) {
        const std::vector<double> best = best_thresholds(sets, {logits, 1}, 1);
        CHECK(MultilabelReport(sets, {logits, 1}, best).classes[0].correct == 2);
    }
    const std::vector<ClassProbability> labels =
        labels_above(std::vector<float>{0, -1, 3, 3}, std::vector<double>{0.5, 0.5, 0.9, 0.99});
    REQUIRE(labels.size() == 2);
    CHECK(labels[0].label == 2);
    CHECK(labels[1].label == 0);
    CHECK(labels[1].probability == 0.5);
}

TEST_CASE("a file of thresholds keeps each class's to the bit, and a bad one is refused in one line") {
    const test::TemporaryFolder folder;
    const std::string path = (folder / "t.json").string();
    const std::vector<std::string> classes{"cat", "\xc3\xa4 \"b\""};
    const std::vector<double> thresholds{0.1 + 0.2, 1 / 3.0};
    write_thresholds(path, thresholds, classes);
    CHECK(read_thresholds(path, classes) == thresholds);
    CHECK(read_thresholds("0.25", classes) == std::vector<double>{0.25, 0.25});
    CHECK(read_thresholds("", classes) == std::vector<double>{0.5, 0.5});
    const auto problem = [&](const std::string& text) {
        test::write_text(path, text);
        std::string message = test::input_error([&] { read_thresholds(path, classes); });
        return message.substr(std::min(message.size(), path.size() + 1));
    };
    const std::string none =
        "is no file of thresholds, a JSON object with a number from 0 to 1 for each class, "
        "such as 'eval --best-thresholds' writes; or give one number for all classes";
    for (const char* const text : {"", "[0.5, 0.5]", "{\"cat\": 0.5", "cat,0.5\n", "\xff"})
        CHECK(problem(text) == none);
    CHECK(problem("{\"cat\": 0.5}") == "has no threshold for class '\xc3\xa4 \"b\"'; add it");
    CHECK(problem("{\"cat\": 0.5, \"dog\": 1}") ==
          "has a threshold for 'dog', which is none of the 2 classes; remove it");
    for (const char* const value : {"1.5", "-0.1", "\"0.5\"", "null"})
        CHECK(problem(std::string("{\"\xc3\xa4 \\\"b\\\"\": 0.5, \"cat\": ") + value + "}") ==
              std::string("has ") + value + " for class 'cat'; give a probability from 0 to 1");
    for (const char* const number : {"1.5", "-1", "2"})
        CHECK_THROWS_AS(read_thresholds(number, classes), UsageError);
    CHECK_THROWS_AS(read_thresholds((folder / "none").string(), classes), InputError);
}

TEST_CASE("predictions of several labels whose scores are not finite have no metrics") {
    Evaluation evaluation{.examples = 2, .correct = 1};
    evaluation.loss_sum = std::nan("");
    CHECK(values_of_metrics({evaluation, nullptr, 10, true, nullptr}).empty());
    CHECK(usual_metric(true).name == "average_precision_macro");
    CHECK(usual_metric(false).name == "accuracy");
}

} // namespace towers
