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

const Head heads[] = {{0, 1, 1, 0}, {0.1, 1, 1, 0}, {0, 0.125, 1, 0}, {0.25, 3, 0.4, 0}, {1, 0.5, 1, 0}};

using Reference = reference::CrossEntropy (&)(const Head&, const Values&, const Values&, std::size_t);

/// A kernel with its reference.
struct Loss {
    KernelHandle<TargetCrossEntropyParams> kernel;
    Reference reference;
    bool is_softmax; ///< a row's targets add up to 1
};

const Loss soft{kernels::soft_cross_entropy, reference::soft_cross_entropy, true};
const Loss sigmoid{kernels::sigmoid_cross_entropy, reference::sigmoid_cross_entropy, false};

struct Results {
    std::vector<float> losses, gradient;
};

Results run(Device& device, const Loss& loss, const Head& head, const std::vector<float>& logits,
            const std::vector<float>& targets, std::uint32_t rows, float scale) {
    const auto classes = std::uint32_t(logits.size() / rows), stride = std::uint32_t(targets.size() / rows);
    Trial trial(device);
    const Tensor in_logits = trial.input(logits), in_targets = trial.input(targets);
    const bool weighted = !head.class_weights.empty();
    const Tensor weights = weighted ? trial.input(narrow(head.class_weights)) : in_logits;
    const Tensor dlogits = trial.output(logits.size()), losses = trial.output(rows);
    trial.run(launch(loss.kernel, {in_logits, in_targets, weights, dlogits, losses, rows, classes, stride,
                                   scale, float(head.smoothing), float(head.logit_scale), float(head.weight),
                                   weighted ? 1u : 0u}));
    return {trial.floats(losses), trial.floats(dlogits)};
}

/// [rows, stride], of which what follows a row's classes is not to be read. A softmax's rows are those of two
/// classes, or of one.
std::vector<float> some_targets(const Loss& loss, std::uint32_t rows, std::uint32_t classes) {
    const std::uint32_t stride = (classes + 3) / 4 * 4;
    std::vector<float> targets(std::size_t(rows) * stride, std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> parts = random_floats(targets.size(), 5, 0, 1);
    for (std::uint32_t row = 0; row < rows; ++row) {
        float* const its = targets.data() + std::size_t(row) * stride;
        for (std::uint32_t c = 0; c < classes; ++c) {
            const float part = parts[std::size_t(row) * stride + c];
            its[c] = loss.is_softmax || part < 0.5f ? 0 : part < 0.8f ? 1 : part;
        }
        if (!loss.is_softmax) continue;
        const float part = row % 3 == 0 ? 0 : parts[row];
        its[row * 7 % classes] = 1 - part;
        its[row * 5 % classes] += part;
    }
    return targets;
}

void check(const Loss& loss, const Head& head, std::uint32_t rows, std::uint32_t classes, float range) {
    INFO(rows, " rows, ", classes, " classes, range ", range, ", smoothing ", head.smoothing);
    const std::vector<float> logits = random_floats(std::size_t(rows) * classes, 1, -range, range);
    const std::vector<float> targets = some_targets(loss, rows, classes);
    const auto expected = loss.reference(head, widen(logits), widen(targets), rows);
    const float scale = 1.0f / float(rows);
    Values gradient = expected.gradient;
    for (double& value : gradient) value *= double(scale);
    on_every_device([&](Device& device) {
        const Results r = run(device, loss, head, logits, targets, rows, scale);
        check_near("losses", r.losses, expected.losses);
        check_near("dlogits", r.gradient, gradient);
    });
}

void check_all(const Loss& loss) {
    for (const Head& head : heads)
        for (const std::uint32_t rows : {1u, 13u})
            for (const std::uint32_t classes : {1u, 3u, 10u, 127u, 1001u})
                for (const float range : {4.0f, 80.0f, 1e4f}) {
                    if (rows * classes == 1 && range > 80) continue; // a loss below the least float
                    check(loss, head, rows, classes, range);
                }
    for (const Head& head : heads) {
        check(loss, head, 127, 10, 4);
        Head weighted = head;
        weighted.class_weights = widen(random_floats(13, 3, 0.02f, 5));
        check(loss, weighted, 13, 13, 8);
        for (const std::size_t heavy : {0, 5, 12}) { // what counts for much, but is in few targets
            weighted.class_weights.assign(13, 1e-2);
            weighted.class_weights[heavy] = 1e4;
            check(loss, weighted, 13, 13, 8);
        }
    }
}

} // namespace

KERNEL_TEST(soft_cross_entropy, "the loss and its gradient are those of the targets") { check_all(soft); }
KERNEL_TEST(sigmoid_cross_entropy, "the loss and its gradient are those of the targets") {
    check_all(sigmoid);
}

TEST_CASE("targets of one class give the loss of its label") {
    for (const Head& head : heads) {
        const std::vector<float> logits = random_floats(3 * 13, 1, -8, 8);
        std::vector<double> targets(3 * 13);
        targets[4] = targets[13] = targets[38] = 1;
        const auto of_targets = reference::soft_cross_entropy(head, widen(logits), targets, 3);
        const auto of_labels = reference::head_loss(head, widen(logits), {4, 0, 12});
        CHECK(reference::relative_error(of_targets.losses, of_labels.losses) < 1e-12);
        CHECK(reference::relative_error(of_targets.gradient, of_labels.gradient) < 1e-12);
    }
}

TEST_CASE("a small gradient of a sigmoid keeps its digits where the other side is near 1") {
    const std::vector<float> logits{30, -30, 30, -30}, targets{1, 0, 0, 1};
    const auto expected = reference::sigmoid_cross_entropy({0, 1, 1, 0}, widen(logits), widen(targets), 1);
    on_every_device([&](Device& device) {
        const Results r = run(device, sigmoid, {0, 1, 1, 0}, logits, targets, 1, 1);
        for (std::size_t i = 0; i < 4; ++i)
            CHECK(double(r.gradient[i]) == doctest::Approx(expected.gradient[i]).epsilon(1e-5));
        CHECK(std::abs(r.gradient[0]) < 1e-12f);
    });
}

TEST_CASE("a score that is not finite makes its row of targets unsound, and no other") {
    for (const Loss* loss : {&soft, &sigmoid})
        for (const Head& head : heads)
            for (const float bad :
                 {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                  -std::numeric_limits<float>::infinity()}) {
                std::vector<float> logits = random_floats(3 * 12, 1);
                logits[17] = bad;
                on_every_device([&](Device& device) {
                    const Results r = run(device, *loss, head, logits, some_targets(*loss, 3, 12), 3, 1);
                    for (std::size_t row = 0; row < 3; ++row)
                        CHECK(std::isfinite(r.losses[row]) == (row != 1));
                    for (std::size_t i = 0; i < 36; ++i) CHECK(std::isfinite(r.gradient[i]) == (i / 12 != 1));
                });
            }
}

TEST_CASE("the reference gradients of targets are those of their losses") {
    for (const Loss* loss : {&soft, &sigmoid})
        for (const Head& each : heads) {
            Head head = each;
            head.class_weights = widen(random_floats(12, 3, 0.1f, 2));
            const Values logits = widen(random_floats(3 * 12, 1, -3, 3));
            const Values targets = widen(some_targets(*loss, 3, 12));
            const auto sum = [&](const Values& v) {
                const Values losses = loss->reference(head, v, targets, 3).losses;
                return std::accumulate(losses.begin(), losses.end(), 0.0);
            };
            CHECK(reference::relative_error(loss->reference(head, logits, targets, 3).gradient,
                                            reference::finite_differences(logits, sum)) < 1e-8);
        }
}

} // namespace towers
