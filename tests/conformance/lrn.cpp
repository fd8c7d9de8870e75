#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::Lrn;
using reference::Values;

/// The tutorial's constants, then a power that needs pow(), a bias and a rate with which the window dominates
/// `scale`, and radii of 0 and beyond the channels.
const Lrn cases[] = {
    {3 * 12 * 12, 64, 4, 1, 0.001 / 9, 0.75},
    {1, 1, 4, 1, 0.001 / 9, 0.75},
    {5 * 7, 3, 4, 1, 0.5, 0.75},
    {3 * 5 * 7, 13, 2, 2, 0.3, 0.75},
    {1, 127, 5, 1, 0.1, 0.75},
    {5 * 7, 127, 130, 1, 0.01, 0.75},
    {3, 13, 0, 1, 0.5, 0.75},
    {5 * 7, 13, 5, 1, 1, 0.5},
    {3 * 5 * 7, 64, 3, 2, 0.25, 1.3},
    {1, 16, 16, 1, 0.2, 0.75},
    {3 * 5 * 7, 4, 4, 1, 0.5, 0.75},
    {3 * 5, 16, 2, 1, 0.5, 0.75},
    {7, 12, 1, 2, 0.5, 0.75},
    {7, 8, 0, 1, 0.5, 0.75},
};

std::string text(const Lrn& l) {
    return fmt::format("{} pixels, {} channels, radius {}, bias {}, alpha {}, beta {}", l.pixels, l.channels,
                       l.radius, l.bias, l.alpha, l.beta);
}

std::size_t size(const Lrn& l) { return std::size_t(l.pixels) * l.channels; }

/// Values like the output of a ReLU: about half of them are zero.
std::vector<float> activations(const Lrn& l) {
    std::vector<float> x = random_floats(size(l), 1, -3, 3);
    for (float& value : x) value = std::max(value, 0.0f);
    return x;
}

/// Rounds the constants to float32, as the kernels get them.
Lrn rounded(Lrn l) {
    l.bias = float(l.bias);
    l.alpha = float(l.alpha);
    l.beta = float(l.beta);
    return l;
}

void check_forward(const Lrn& l, const std::vector<float>& values) {
    INFO(text(l));
    const reference::Normalized expected = reference::lrn(rounded(l), widen(values));
    on_every_device([&](Device& device) {
        Trial trial(device);
        const Tensor x = trial.input(values), y = trial.output(size(l)), scale = trial.output(size(l));
        trial.run(launch(kernels::lrn_forward, {x, y, scale, l.pixels, l.channels, l.radius, float(l.bias),
                                                float(l.alpha), float(l.beta)}));
        check_near("y", trial.floats(y), expected.y);
        check_near("scale", trial.floats(scale), expected.scale);
    });
}

} // namespace

KERNEL_TEST(lrn_forward, "responses are normalized by their neighbouring channels") {
    for (const Lrn& l : cases) {
        check_forward(l, activations(l));
        check_forward(l, random_floats(size(l), 2, -3, 3));
    }
}

TEST_CASE("one strong response does not affect the normalization of channels beyond its window") {
    const Lrn l{3, 64, 4, 1, 0.001 / 9, 0.75};
    std::vector<float> values = activations(l);
    for (std::size_t i = 3; i < values.size(); i += 64) values[i] = 1e3f;
    check_forward(l, values);
}

TEST_CASE("very strong responses leave neighbours that vanish by rounding finite") {
    const Lrn l{7, 64, 4, 1, 0.001 / 9, 0.75};
    on_every_device([&](Device& device) {
        std::vector<float> values = random_floats(size(l), 4, 1e6f, 1e7f);
        for (std::size_t i = 0; i < values.size(); ++i)
            if (i % 16 >= 4) values[i] = 0.5f;
        Trial trial(device);
        const Tensor x = trial.input(values), y = trial.output(size(l)), scale = trial.output(size(l));
        trial.run(launch(kernels::lrn_forward,
                         {x, y, scale, l.pixels, l.channels, l.radius, 1.0f, float(l.alpha), float(l.beta)}));
        for (const float each : trial.floats(scale)) CHECK(each >= 1);
        for (const float each : trial.floats(y)) CHECK(std::isfinite(each));
    });
}

TEST_CASE("a NaN passes through normalization, so that divergence shows") {
    for (const unsigned channels : {13u, 16u}) { // one after the other, and in fours
        const Lrn l{5, channels, 2, 1, 0.1, 0.75};
        const std::size_t at = channels + 7; // in the second pixel
        on_every_device([&](Device& device) {
            std::vector<float> values = activations(l);
            values[at] = std::numeric_limits<float>::quiet_NaN();
            Trial trial(device);
            const Tensor x = trial.input(values), y = trial.output(size(l)), scale = trial.output(size(l));
            trial.run(launch(kernels::lrn_forward, {x, y, scale, 5, channels, 2, 1.0f, 0.1f, 0.75f}));
            const std::vector<float> normalized = trial.floats(y);
            Trial back(device);
            const Tensor dx = back.output(size(l));
            back.run(launch(kernels::lrn_backward,
                            {back.input(values), back.input(normalized), back.input(trial.floats(scale)),
                             back.input(random_floats(size(l), 3)), dx, 5, channels, 2, 0.1f, 0.75f, 0}));
            const std::vector<float> gradient = back.floats(dx);
            for (std::size_t i = 0; i < values.size(); ++i) {
                const std::size_t distance = i < at ? at - i : i - at;
                if (distance <= 2) {
                    CHECK(std::isnan(normalized[i]));
                    CHECK(std::isnan(gradient[i]));
                }
                if (i / channels != 1) { // other pixels
                    CHECK(!std::isnan(normalized[i]));
                    CHECK(!std::isnan(gradient[i]));
                }
            }
        });
    }
}

KERNEL_TEST(lrn_backward, "layers below a normalization learn from the right gradient") {
    for (const Lrn& l : cases) {
        INFO(text(l));
        for (const bool relu : {false, true}) {
            INFO("relu ", relu);
            const std::vector<float> values = relu ? activations(l) : random_floats(size(l), 2, -3, 3);
            const std::vector<float> gradient = random_floats(size(l), 3);
            const reference::Normalized normalized = reference::lrn(rounded(l), widen(values));
            Values expected = reference::lrn_gradient(rounded(l), widen(values), widen(gradient));
            if (relu) expected = reference::relu_gradient(widen(values), expected);
            on_every_device([&](Device& device) {
                Trial trial(device);
                const Tensor x = trial.input(values), y = trial.input(narrow(normalized.y)),
                             scale = trial.input(narrow(normalized.scale)), dy = trial.input(gradient);
                const Tensor dx = trial.output(size(l));
                trial.run(launch(kernels::lrn_backward, {x, y, scale, dy, dx, l.pixels, l.channels, l.radius,
                                                         float(l.alpha), float(l.beta), relu}));
                check_near("dx", trial.floats(dx), expected);
            });
        }
    }
}

TEST_CASE("the reference normalization gradient is the gradient of the normalization") {
    for (Lrn l : cases) {
        INFO(text(l));
        l.pixels = 1;
        const Values x = widen(random_floats(size(l), 1, -3, 3)), dy = widen(random_floats(size(l), 2));
        const auto by_x = [&](const Values& v) { return reference::dot(reference::lrn(l, v).y, dy); };
        CHECK(reference::relative_error(reference::lrn_gradient(l, x, dy),
                                        reference::finite_differences(x, by_x)) < 1e-8);
    }
}

} // namespace towers
