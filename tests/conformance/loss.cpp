#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numeric>

namespace towers {
namespace {

using namespace test;
using reference::Values;
using reference::Words;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Scores {
    std::uint32_t rows, classes;
    float scale;
    std::vector<float> logits;
    Words labels;

    Scores(std::uint32_t row_count, std::uint32_t class_count, float range)
        : rows(row_count), classes(class_count), scale(1.0f / float(row_count)),
          logits(random_floats(std::size_t(rows) * classes, 1, -range, range)) {
        for (std::uint32_t row = 0; row < rows; ++row) labels.push_back(row * 7 % classes);
    }
};

void check_softmax(const Scores& s) {
    INFO(s.rows, " rows, ", s.classes, " classes");
    const reference::CrossEntropy expected = reference::softmax_cross_entropy(widen(s.logits), s.labels);
    Values gradient = expected.gradient;
    for (double& value : gradient) value *= s.scale;
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor logits = trial.input(s.logits), labels = trial.input(s.labels);
        const Tensor dlogits = trial.output(s.logits.size()), losses = trial.output(s.rows),
                     correct = trial.output(s.rows);
        trial.run(
            launch(kernels::softmax_cross_entropy, {logits, labels, logits, dlogits, losses, correct, s.rows,
                                                    s.classes, s.scale, 0.0f, 1.0f, 1.0f, 0, 0}));
        check_near("losses", trial.floats(losses), expected.losses);
        check_near("dlogits", trial.floats(dlogits), gradient);
        const bool same_correct = trial.words(correct) == expected.correct;
        CHECK(same_correct);
    });
}

/// Lengths in vec4s: shorter than a block, exactly a block, and with every kind of remainder.
const std::uint32_t lengths[] = {1, 3, 13, 16, 17, 127, 512, 513, 1031, 2048};

/// Longer than the most chunks of a reduction can cover alone, with unevenly shared blocks and a partial one.
constexpr std::uint32_t large = REDUCTION_MOST_CHUNKS * REDUCTION_BLOCK + 40001;
constexpr std::size_t large_bytes = std::size_t(3) * large * 16;

std::size_t capacity(std::size_t quads) { return quads < large ? std::size_t(4) << 20 : large_bytes; }

/// What check_finite makes of these values and of what results[RESULT_NONFINITE] was before.
float nonfinite(Device& device, const std::vector<float>& values, float before = 0) {
    Trial trial(device, capacity(values.size() / 4));
    const Tensor x = trial.input(values), found = trial.in_out(std::vector<float>{before});
    trial.run(launch(kernels::check_finite, {x, found, std::uint32_t(values.size() / 4)}));
    return trial.floats(found)[0];
}

/// `before`: what the memory of the results has, if the step follows one whose results nobody has seen.
std::vector<float> step_results(Device& device, const std::vector<float>& losses,
                                const std::vector<float>& decays, float examples = 0,
                                const std::vector<float>& before = {}) {
    Trial trial(device);
    std::vector<float> numbers(STEP_FLOATS, 0);
    numbers[STEP_FOLLOWS] = before.empty() ? 0 : 1;
    const Tensor in_losses = trial.input(losses), step = trial.input(numbers),
                 results = trial.in_out(before.empty() ? std::vector<float>(RESULT_FLOATS, nan) : before);
    Tensor in_decays; // null if there are none
    if (!decays.empty()) in_decays = trial.input(decays);
    trial.run(launch(kernels::step_results,
                     {in_losses, in_decays, step, results, unsigned(losses.size()), unsigned(decays.size()),
                      examples > 0 ? examples : float(losses.size())}));
    return trial.floats(results);
}

} // namespace

KERNEL_TEST(softmax_cross_entropy, "the loss, its gradient and the precision are those of the logits") {
    for (const std::uint32_t rows : {1u, 3u, 127u, 300u})
        for (const std::uint32_t classes : {1u, 2u, 10u, 13u, 127u}) check_softmax(Scores(rows, classes, 4));
}

TEST_CASE("logits of any size give a finite loss") {
    for (const float range : {1e-3f, 80.0f, 1e4f}) {
        INFO("range ", range);
        check_softmax(Scores(13, 10, range));
    }
    Scores equal(13, 10, 1);
    std::fill(equal.logits.begin(), equal.logits.end(), -1e30f);
    check_softmax(equal);
}

TEST_CASE("a label that ties with the best class counts as right, as in the tutorial's in_top_k") {
    Scores s(3, 10, 1);
    s.logits[s.labels[0]] = s.logits[9] = 2;
    s.logits[10 + s.labels[1]] = 2;
    s.logits[10 + (s.labels[1] + 1) % 10] = std::nextafter(2.0f, 3.0f);
    check_softmax(s);
}

TEST_CASE("a NaN among the logits makes its row's loss and gradient NaN, and no other's") {
    for (const std::size_t at : {10u, 13u, 19u}) { // first, middle and last of the row
        Scores s(3, 10, 1);
        s.logits[at] = nan;
        const reference::CrossEntropy expected = reference::softmax_cross_entropy(widen(s.logits), s.labels);
        REQUIRE(std::isnan(expected.losses[1]));
        check_softmax(s);
    }
}

TEST_CASE("the reference cross entropy gradient is the gradient of the loss") {
    const Scores s(3, 13, 3);
    const auto loss = [&](const Values& v) {
        const Values losses = reference::softmax_cross_entropy(v, s.labels).losses;
        return std::accumulate(losses.begin(), losses.end(), 0.0);
    };
    CHECK(reference::relative_error(reference::softmax_cross_entropy(widen(s.logits), s.labels).gradient,
                                    reference::finite_differences(widen(s.logits), loss)) < 1e-8);
}

KERNEL_TEST(weight_decay, "all weights decay, and the loss says by how much") {
    std::vector<std::uint32_t> all(std::begin(lengths), std::end(lengths));
    all.push_back(large);
    for (const std::uint32_t quads : all) {
        INFO(quads, " vec4s");
        const float decay = 0.04f;
        const std::vector<float> weights = random_floats(quads * 4, 1),
                                 gradients = random_floats(quads * 4, 2);
        Values expected = widen(gradients);
        for (std::size_t i = 0; i < weights.size(); ++i) expected[i] += double(decay) * weights[i];
        on_every_device([&](Device& device) {
            Trial trial(device, capacity(quads));
            const Tensor w = trial.input(weights), dw = trial.in_out(gradients),
                         partials = trial.output(REDUCTION_CHUNKS(quads));
            trial.run(launch(kernels::weight_decay, {w, dw, partials, decay, quads}));
            check_near("dw", trial.floats(dw), expected);
            const std::vector<float> parts = trial.floats(partials);
            const double loss = std::accumulate(parts.begin(), parts.end(), 0.0);
            const double expected_loss = reference::weight_decay(widen(weights), decay);
            CHECK(std::abs(loss - expected_loss) <= default_tolerance * expected_loss);
        });
    }
}

TEST_CASE("the reference weight decay is the gradient of its loss") {
    const Values w = widen(random_floats(13, 1));
    Values gradient = w;
    for (double& value : gradient) value *= 0.04;
    const auto loss = [](const Values& v) { return reference::weight_decay(v, 0.04); };
    CHECK(reference::relative_error(gradient, reference::finite_differences(w, loss)) < 1e-8);
}

KERNEL_TEST(check_finite, "every NaN or infinity in a gradient is seen, and nothing else") {
    for (const std::uint32_t quads : lengths) {
        INFO(quads, " vec4s");
        std::vector<float> values = random_floats(quads * 4, quads);
        values[0] = FLT_MAX;
        values[1] = -FLT_MAX;
        values[2] = FLT_TRUE_MIN;
        on_every_device([&](Device& device) {
            CHECK(nonfinite(device, values) == 0);
            CHECK(nonfinite(device, values, 1) == 1); // as a step that follows one that diverged
            for (const float bad : {nan, -nan, infinity, -infinity}) {
                INFO("of ", bad);
                CHECK(nonfinite(device, std::vector<float>(values.size(), bad)) == 1);
                for (std::size_t back = 1; back <= 4; ++back) {
                    std::vector<float> one = values;
                    one[one.size() - back] = bad;
                    CHECK(nonfinite(device, one) == 1);
                }
            }
        });
    }
}

TEST_CASE("an infinity anywhere in a large gradient is seen") {
    const std::vector<float> values = random_floats(std::size_t(large) * 4, 1);
    on_every_device([&](Device& device) {
        for (const std::size_t at : {std::size_t(0), values.size() / 3, values.size() - 1}) {
            std::vector<float> one = values;
            one[at] = infinity;
            CHECK(nonfinite(device, one) == 1);
        }
    });
}

TEST_CASE("a reduction of any size leaves few partial results, and covers each block once") {
    for (const std::uint32_t quads :
         {1u, 511u, 512u, 513u, 524287u, 524288u, 524289u, large, 34'600'000u, 1u << 29}) {
        CAPTURE(quads);
        const std::uint32_t blocks = REDUCTION_BLOCKS(quads), chunks = REDUCTION_CHUNKS(quads);
        CHECK(chunks == std::min(blocks, 1024u));
        CHECK(REDUCTION_BEGIN(quads, 0) == 0);
        CHECK(REDUCTION_BEGIN(quads, chunks) == quads);
        bool even = true;
        for (std::uint32_t i = 0; i < chunks; ++i) {
            const std::uint32_t taken =
                REDUCTION_BLOCKS(REDUCTION_BEGIN(quads, i + 1) - REDUCTION_BEGIN(quads, i));
            even &= taken == blocks / chunks || taken == blocks / chunks + 1;
        }
        CHECK(even);
    }
}

KERNEL_TEST(sum_squares, "the gradient's norm counts every element, however many there are") {
    std::vector<std::uint32_t> all(std::begin(lengths), std::end(lengths));
    all.push_back(large);
    for (const std::uint32_t quads : all) {
        INFO(quads, " vec4s");
        const std::vector<float> values = random_floats(std::size_t(quads) * 4, 1);
        const double expected = reference::dot(widen(values), widen(values));
        on_every_device([&](Device& device) {
            Trial trial(device, capacity(quads));
            const Tensor x = trial.input(values), partials = trial.output(REDUCTION_CHUNKS(quads));
            trial.run(launch(kernels::sum_squares, {x, partials, quads}));
            const std::vector<float> parts = trial.floats(partials);
            const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
            CHECK(std::abs(sum - expected) <= default_tolerance * expected);
        });
    }
}

TEST_CASE("a tower's loss is its part of the global batch's mean") {
    on_every_device([&](Device& device) {
        const std::vector<float> results = step_results(device, {1, 2, 3}, {}, 12);
        CHECK(results[RESULT_CROSS_ENTROPY] == 0.5f);
        CHECK(results[RESULT_TOTAL_LOSS] == 0.5f);
    });
}

KERNEL_TEST(step_results, "the reported loss is the mean over the examples with all decays") {
    on_every_device([&](Device& device) {
        for (const unsigned loss_count : {1u, 3u, 127u, 1000u})
            for (const unsigned decay_count : {0u, 1u, 13u, 1031u}) {
                const std::vector<float> losses = random_floats(loss_count, 1, 0, 5),
                                         decays = random_floats(decay_count, 2, 0, 0.01f);
                const double cross_entropy =
                    std::accumulate(losses.begin(), losses.end(), 0.0) / double(loss_count);
                const double total = std::accumulate(decays.begin(), decays.end(), cross_entropy);
                Values expected(RESULT_FLOATS);
                expected[RESULT_TOTAL_LOSS] = total;
                expected[RESULT_CROSS_ENTROPY] = cross_entropy;
                const std::vector<float> results = step_results(device, losses, decays);
                INFO(loss_count, " losses, ", decay_count, " decays");
                for (const int slot : {RESULT_TOTAL_LOSS, RESULT_CROSS_ENTROPY, RESULT_NONFINITE})
                    CHECK(std::abs(results[slot] - expected[slot]) <= default_tolerance * expected[slot]);
            }
    });
}

TEST_CASE("a NaN in one example's loss or in one weight reaches the step's results") {
    on_every_device([&](Device& device) {
        std::vector<float> losses(127, 1.0f), decays(13, 0.5f);
        losses[63] = nan;
        CHECK(std::isnan(step_results(device, losses, decays)[RESULT_CROSS_ENTROPY]));
        CHECK(std::isnan(step_results(device, losses, decays)[RESULT_TOTAL_LOSS]));
        losses[63] = 1;
        decays[12] = nan;
        CHECK(std::isnan(step_results(device, losses, decays)[RESULT_TOTAL_LOSS]));
    });
}

TEST_CASE("a step that follows one that diverged is not finite either, and one that follows a sound one is") {
    const auto of = [](float total_loss, float nonfinite) {
        std::vector<float> results(RESULT_FLOATS, 1);
        results[RESULT_TOTAL_LOSS] = total_loss;
        results[RESULT_NONFINITE] = nonfinite;
        return results;
    };
    on_every_device([&](Device& device) {
        for (const std::vector<float>& diverged : {of(nan, 0), of(infinity, 0), of(-infinity, 0), of(1, 1)}) {
            const std::vector<float> results = step_results(device, {1, 2}, {}, 0, diverged);
            CHECK(results[RESULT_NONFINITE] != 0);
            CHECK(results[RESULT_TOTAL_LOSS] == 1.5f);
            CHECK(step_results(device, {1, 2}, {}, 0, results)[RESULT_NONFINITE] != 0);
        }
        CHECK(step_results(device, {1, 2}, {}, 0, of(1, 0))[RESULT_NONFINITE] == 0);
    });
}

} // namespace towers
