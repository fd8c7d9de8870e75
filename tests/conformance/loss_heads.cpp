#include "tests/conformance/harness.h"
#include "tests/conformance/reference_loss.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace towers {
namespace {

using namespace test;
using reference::Head;
using reference::Values;
using reference::Words;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

const Head heads[] = {
    {0.1, 1, 1, 0},    // Inception v3's label smoothing
    {0, 0.125, 1, 0},  // a temperature
    {0, 1, 0.3, 0},    // an auxiliary head
    {0, 1, 1, 1},      // a class for the background
    {0.25, 3, 0.4, 2}, //
    {1, 0.5, 1, 0},    // nothing but smoothing
};

std::string text(const Head& h) {
    return fmt::format("smoothing {}, logit scale {}, weight {}, label offset {}", h.smoothing, h.logit_scale,
                       h.weight, h.label_offset);
}

struct Results {
    std::vector<float> losses, gradient;
    Words correct;
};

Results head_loss(Device& device, const Head& head, const std::vector<float>& logits, const Words& labels,
                  float scale) {
    const auto rows = std::uint32_t(labels.size());
    Trial trial(device);
    const Tensor in_logits = trial.input(logits), in_labels = trial.input(labels);
    const bool weighted = !head.class_weights.empty();
    const Tensor weights = weighted ? trial.input(narrow(head.class_weights)) : in_logits;
    const Tensor dlogits = trial.output(logits.size()), losses = trial.output(rows),
                 correct = trial.output(rows);
    trial.run(launch(kernels::softmax_cross_entropy,
                     {in_logits, in_labels, weights, dlogits, losses, correct, rows,
                      std::uint32_t(logits.size() / rows), scale, float(head.smoothing),
                      float(head.logit_scale), float(head.weight), head.label_offset, weighted ? 1u : 0u}));
    return {trial.floats(losses), trial.floats(dlogits), trial.words(correct)};
}

Words labels_below(std::uint32_t rows, std::uint32_t bound) {
    Words labels;
    for (std::uint32_t row = 0; row < rows; ++row) labels.push_back(row * 7 % bound);
    return labels;
}

void check_head(const Head& head, std::uint32_t rows, std::uint32_t classes, float range) {
    INFO(rows, " rows, ", classes, " classes, range ", range, ", ", text(head));
    const std::vector<float> logits = random_floats(std::size_t(rows) * classes, 1, -range, range);
    const Words labels = labels_below(rows, classes - head.label_offset);
    const auto expected = reference::head_loss(head, widen(logits), labels);
    const float scale = 1.0f / float(rows);
    Values gradient = expected.gradient;
    for (double& value : gradient) value *= scale;
    on_every_device([&](Device& device) {
        const Results r = head_loss(device, head, logits, labels, scale);
        check_near("losses", r.losses, expected.losses);
        check_near("dlogits", r.gradient, gradient);
        const bool same_correct = r.correct == expected.correct;
        CHECK(same_correct);
    });
}

} // namespace

TEST_CASE("softmax_cross_entropy: smoothing, temperature, weight and a background class work as documented") {
    for (const Head& head : heads)
        for (const std::uint32_t rows : {13u, 127u})
            for (const std::uint32_t classes : {3u, 10u, 127u, 1001u})
                for (const float range : {4.0f, 80.0f, 1e4f}) check_head(head, rows, classes, range);
}

TEST_CASE(
    "softmax_cross_entropy: class weights weigh an example's loss, and each class in a smoothed target") {
    for (const Head& head : heads)
        for (const std::uint32_t classes : {3u, 10u, 127u, 1001u})
            for (const float range : {4.0f, 80.0f}) {
                Head weighted = head;
                weighted.class_weights = widen(random_floats(classes, 3, 0.02f, 5));
                check_head(weighted, 13, classes, range);
            }
}

TEST_CASE("softmax_cross_entropy: class weights of 1 give the bits of a loss without them") {
    const std::vector<float> logits = random_floats(127 * 13, 1, -8, 8);
    on_every_device([&](Device& device) {
        for (const Head& head : heads) {
            INFO(text(head));
            const Words labels = labels_below(127, 13 - head.label_offset);
            Head ones = head;
            ones.class_weights = Values(13, 1);
            const Results a = head_loss(device, head, logits, labels, 0.3f),
                          b = head_loss(device, ones, logits, labels, 0.3f);
            CHECK(a.losses == b.losses);
            CHECK(a.gradient == b.gradient);
        }
    });
}

TEST_CASE("neither temperature nor smoothing changes the predicted class") {
    const float scale = 0.3f;
    float lower = 1; // becomes one that the temperature rounds to the same number as the next
    while (lower * scale != std::nextafter(lower, 2.0f) * scale) lower = std::nextafter(lower, 2.0f);
    const std::vector<float> logits{lower, std::nextafter(lower, 2.0f), 0};
    on_every_device([&](Device& device) {
        for (const float smoothing : {0.0f, 0.9f}) {
            const Head head{smoothing, scale, 1, 0};
            CHECK(head_loss(device, head, logits, {0}, 1).correct == Words{0});
            CHECK(head_loss(device, head, logits, {1}, 1).correct == Words{1});
        }
    });
}

TEST_CASE("a NaN, an infinity or an overflow by the temperature makes its row's loss and gradient unsound") {
    for (const Head& head : heads)
        for (const float bad : {nan, infinity, -infinity, 3e38f}) {
            if (bad == 3e38f && !(head.logit_scale > 1.5)) continue;
            INFO(bad, ", ", text(head));
            std::vector<float> logits = random_floats(3 * 10, 1);
            logits[13] = bad;
            on_every_device([&](Device& device) {
                const Results r = head_loss(device, head, logits, {0, 1, 2}, 1);
                for (std::size_t row = 0; row < 3; ++row) CHECK(std::isfinite(r.losses[row]) == (row != 1));
                for (std::size_t i = 0; i < 30; ++i) CHECK(std::isfinite(r.gradient[i]) == (i / 10 != 1));
                CHECK(r.correct[1] == 0);
            });
        }
}

TEST_CASE("the reference gradient of a head is the gradient of its loss") {
    std::vector<Head> all(std::begin(heads), std::end(heads));
    for (const Head& head : heads) {
        all.push_back(head);
        all.back().class_weights = widen(random_floats(13, 3, 0.1f, 2));
    }
    for (const Head& head : all) {
        INFO(text(head));
        const Values logits = widen(random_floats(3 * 13, 1, -3, 3));
        const Words labels = labels_below(3, 11);
        const auto loss = [&](const Values& v) {
            const Values losses = reference::head_loss(head, v, labels).losses;
            return std::accumulate(losses.begin(), losses.end(), 0.0);
        };
        CHECK(reference::relative_error(reference::head_loss(head, logits, labels).gradient,
                                        reference::finite_differences(logits, loss)) < 1e-8);
    }
}

} // namespace towers
