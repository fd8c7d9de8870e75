#include "tests/conformance/harness.h"
#include "tests/conformance/reference_layer_norm.h"

#include <cmath>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::LayerNorm;
using reference::Values;

/// Calls `check` with shapes, with and without gamma and beta.
template<class Check>
void for_all(Check check) {
    struct Size {
        uint rows, channels;
    };
    for (const Size& s : {Size{1, 1}, {1, 13}, {3, 5}, {7, 127}, {130, 64}, {35, 300}, {1000, 3}})
        for (const bool used : {true, false}) {
            INFO(s.rows, " rows, ", s.channels, " channels, gamma and beta: ", used);
            LayerNorm norm{s.rows, s.channels, 1e-3f, {}, {}};
            if (used) norm.gamma = widen(random_floats(s.channels, 5, 0.5f, 1.5f));
            if (used) norm.beta = widen(random_floats(s.channels, 6));
            check(norm);
        }
}

/// Far from zero, so that sums of squares would lose the variance.
std::vector<float> random_x(const LayerNorm& norm) {
    return random_floats(std::size_t(norm.rows) * norm.channels, 1, 3, 7);
}

struct Measured {
    std::vector<float> y, mean, rstd;
};
Measured forward(Device& device, const LayerNorm& norm, const std::vector<float>& values) {
    Trial trial(device);
    LayerNormForwardParams p{.rows = norm.rows,
                             .channels = norm.channels,
                             .epsilon = float(norm.epsilon),
                             .gamma_used = !norm.gamma.empty(),
                             .beta_used = !norm.beta.empty()};
    p.x = trial.input(values);
    if (p.gamma_used != 0) p.gamma = trial.input(narrow(norm.gamma));
    if (p.beta_used != 0) p.beta = trial.input(narrow(norm.beta));
    const Tensor y = trial.output(values.size()), mean = trial.output(norm.rows),
                 rstd = trial.output(norm.rows);
    p.y = y;
    p.mean = mean;
    p.rstd = rstd;
    trial.run(launch(kernels::layer_norm_forward, p));
    return {trial.floats(y), trial.floats(mean), trial.floats(rstd)};
}

std::vector<float> backward(Device& device, const LayerNorm& norm, const std::vector<float>& values,
                            const std::vector<float>& gradient) {
    Trial trial(device);
    const reference::LayerNormalized normalized = reference::layer_norm(norm, widen(values));
    LayerNormBackwardParams p{
        .rows = norm.rows, .channels = norm.channels, .gamma_used = !norm.gamma.empty()};
    p.x = trial.input(values);
    p.dy = trial.input(gradient);
    p.mean = trial.input(narrow(normalized.mean));
    p.rstd = trial.input(narrow(normalized.rstd));
    if (p.gamma_used != 0) p.gamma = trial.input(narrow(norm.gamma));
    const Tensor dx = trial.output(values.size());
    p.dx = dx;
    trial.run(launch(kernels::layer_norm_backward, p));
    return trial.floats(dx);
}

} // namespace

KERNEL_TEST(layer_norm_forward, "each pixel's channels get the mean beta and the deviation gamma") {
    for_all([](const LayerNorm& norm) {
        const std::vector<float> x = random_x(norm);
        const reference::LayerNormalized expected = reference::layer_norm(norm, widen(x));
        on_every_device([&](Device& device) {
            const Measured measured = forward(device, norm, x);
            // A single channel equals its mean, so only rounding remains.
            if (norm.channels > 1) check_near("y", measured.y, expected.y, 3e-6); // x is ten times larger
            check_near("mean", measured.mean, expected.mean);
            check_near("rstd", measured.rstd, expected.rstd);
        });
    });
}

KERNEL_TEST(layer_norm_backward, "layers below a layer norm learn from the right gradient") {
    for_all([](const LayerNorm& norm) {
        if (norm.channels == 1) return; // the gradient is zero, so only rounding is measured
        const std::vector<float> x = random_x(norm), dy = random_floats(x.size(), 2);
        const Values expected = reference::layer_norm_gradients(norm, widen(x), widen(dy)).x;
        on_every_device([&](Device& device) { check_near("dx", backward(device, norm, x, dy), expected); });
    });
}

KERNEL_TEST(layer_norm_parameter_sums, "gamma and beta learn from every pixel") {
    EverySource sources;
    for_all([&](const LayerNorm& norm) {
        const std::vector<float> x = random_x(norm), dy = random_floats(x.size(), 2, 0, 1);
        const reference::LayerNormalized normalized = reference::layer_norm(norm, widen(x));
        Values s1(norm.channels), s2(norm.channels);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t row = i / norm.channels;
            s1[i % norm.channels] += dy[i];
            s2[i % norm.channels] +=
                dy[i] * (x[i] - double(float(normalized.mean[row]))) * double(float(normalized.rstd[row]));
        }
        for (const unsigned splits : {0u, 1u, 5u, 32u}) {
            INFO(splits, " splits");
            sources.run([&](Device& device) {
                Trial trial(device);
                const Tensor in = trial.input(x), gradient = trial.input(dy),
                             mean = trial.input(narrow(normalized.mean)),
                             rstd = trial.input(narrow(normalized.rstd)), sums = trial.output(norm.channels),
                             products = trial.output(norm.channels);
                trial.run(launch(kernels::layer_norm_parameter_sums,
                                 {in, gradient, mean, rstd, sums, products, norm.rows, norm.channels, 1}),
                          splits);
                check_near("dy", trial.floats(sums), s1);
                if (norm.channels > 1) check_near("dy * xhat", trial.floats(products), s2);
            });
        }
    });
}

TEST_CASE("a NaN in one pixel makes all of its channels NaN in a layer norm, and no other pixel's") {
    const LayerNorm norm{5, 13, 1e-5, {}, {}};
    std::vector<float> x = random_x(norm), dy = random_floats(x.size(), 2);
    const std::vector<float> sound = x;
    x[20] = dy[20] = std::numeric_limits<float>::quiet_NaN();
    on_every_device([&](Device& device) {
        const std::vector<float> y = forward(device, norm, x).y, dx = backward(device, norm, sound, dy);
        for (std::size_t i = 0; i < x.size(); ++i) {
            CHECK(std::isnan(y[i]) == (i / 13 == 1));
            CHECK(std::isnan(dx[i]) == (i / 13 == 1));
        }
    });
}

TEST_CASE("the reference layer norm gradients are the gradients of the layer norm") {
    for (const bool used : {true, false}) {
        LayerNorm norm{4, 5, 1e-3, Values(5, 1), Values(5)};
        if (used) norm.gamma = widen(random_floats(5, 5, 0.5f, 1.5f));
        if (used) norm.beta = widen(random_floats(5, 6));
        const Values x = widen(random_x(norm)), dy = widen(random_floats(x.size(), 2));
        const reference::LayerNormGradients gradients = reference::layer_norm_gradients(norm, x, dy);
        using namespace reference;
        const auto by = [&](const LayerNorm& changed, const Values& v) {
            return dot(layer_norm(changed, v).y, dy);
        };
        const auto by_x = [&](const Values& v) { return by(norm, v); };
        const auto by_gamma = [&](const Values& v) { return by({4, 5, 1e-3, v, norm.beta}, x); };
        const auto by_beta = [&](const Values& v) { return by({4, 5, 1e-3, norm.gamma, v}, x); };
        CHECK(relative_error(gradients.x, finite_differences(x, by_x)) < 1e-7);
        CHECK(relative_error(gradients.gamma, finite_differences(norm.gamma, by_gamma)) < 1e-7);
        CHECK(relative_error(gradients.beta, finite_differences(norm.beta, by_beta)) < 1e-7);
    }
}

} // namespace towers
