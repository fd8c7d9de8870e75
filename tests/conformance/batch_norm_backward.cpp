#include "tests/conformance/batch_norm_trials.h"

#include <cmath>
#include <limits>

namespace towers {
namespace {

using namespace test;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Masks the output's gradient as a ReLU after the layer does. Uses the device's own output: near zero
/// another device's may have another sign, but backward must find exactly the sign that forward had.
Values passed_of(Device& device, const BatchNorm& norm, const std::vector<float>& x,
                 const std::vector<float>& dy, bool gamma_used, bool relu) {
    if (!relu) return widen(dy);
    return reference::relu_gradient(widen(forward(device, norm, x, gamma_used, true, true)), widen(dy));
}

/// The sums of dy over each row alone: each is a group, with the statistics of all.
std::vector<float> sums_of_rows(Device& device, const BatchNorm& norm, const std::vector<float>& x,
                                const std::vector<float>& dy) {
    BatchNorm of_row = norm;
    of_row.shape = {norm.shape.rows, 1, norm.shape.channels};
    for (Values* each : {&of_row.moments.mean, &of_row.moments.m2}) {
        const Values once = *each;
        for (uint row = 1; row < norm.shape.rows; ++row) each->insert(each->end(), once.begin(), once.end());
    }
    return sums(device, of_row, 1, x, dy, true).dy;
}

} // namespace

KERNEL_TEST(batch_norm_backward_sums, "gamma and beta learn from every row") {
    EverySource sources;
    for_all([&](const BatchNormShape& s, uint splits) {
        const std::vector<float> x = random_x(s), dy = random_floats(s.size(), 4, 0, 1);
        const BatchNorm norm = random_norm(s, widen(x));
        for (const bool relu : {false, true}) {
            INFO("relu ", relu);
            sources.run([&](Device& device) {
                const GradientSums expected =
                    reference::gradient_sums(norm, widen(x), passed_of(device, norm, x, dy, true, relu));
                const MeasuredSums found = sums(device, norm, splits, x, dy, relu);
                check_near("dy", found.dy, expected.dy);
                check_near("dy * xhat", found.xhat, expected.xhat);
            });
        }
    });
}

KERNEL_TEST(batch_norm_merge_sums, "no split's part of gamma's and beta's gradients is lost") {
    EverySource sources;
    for (const uint groups : {1u, 3u})
        for (const uint channels : {1u, 13u, 64u})
            for (const uint splits : {1u, 7u, 64u, 300u}) {
                INFO(groups, " groups, ", channels, " channels, ", splits, " splits");
                const std::vector<float> s1s = random_floats(groups * splits * channels, 1, 0, 1),
                                         s2s = random_floats(s1s.size(), 2, -1, 0);
                Values expected_s1(groups * channels), expected_s2(groups * channels);
                for (std::size_t i = 0; i < s1s.size(); ++i) {
                    const std::size_t at = i / channels / splits * channels + i % channels;
                    expected_s1[at] += s1s[i];
                    expected_s2[at] += s2s[i];
                }
                sources.run([&](Device& device) {
                    Trial trial(device, capacity);
                    const Tensor s1 = trial.output(groups * channels), s2 = trial.output(groups * channels);
                    trial.run(launch(kernels::batch_norm_merge_sums,
                                     {trial.input(s1s), trial.input(s2s), s1, s2, groups, channels, splits}));
                    check_near("s1", trial.floats(s1), expected_s1);
                    check_near("s2", trial.floats(s2), expected_s2);
                });
            }
}

KERNEL_TEST(batch_norm_parameter_gradients, "gamma and beta learn from every group") {
    for (const uint groups : {1u, 2u, 3u})
        for (const uint channels : {1u, 3u, 127u})
            for (const uint used : {0u, 1u, 2u}) {
                INFO(groups, " groups, ", channels, " channels, used: ", used);
                const bool gamma_used = used != 1, beta_used = used != 0;
                const std::vector<float> s1 = random_floats(groups * channels, 1, 0, 1),
                                         s2 = random_floats(groups * channels, 2, -1, 0);
                Values expected_gamma(channels), expected_beta(channels);
                for (std::size_t i = 0; i < s1.size(); ++i) {
                    expected_beta[i % channels] += s1[i];
                    expected_gamma[i % channels] += s2[i];
                }
                on_every_device([&](Device& device) {
                    Trial trial(device, capacity);
                    BatchNormParameterGradientsParams p{
                        trial.input(s1), trial.input(s2), {}, {}, groups, channels, gamma_used, beta_used};
                    Tensor dgamma, dbeta;
                    if (gamma_used) p.dgamma = dgamma = trial.output(channels);
                    if (beta_used) p.dbeta = dbeta = trial.output(channels);
                    trial.run(launch(kernels::batch_norm_parameter_gradients, p));
                    if (gamma_used) check_near("dgamma", trial.floats(dgamma), expected_gamma);
                    if (beta_used) check_near("dbeta", trial.floats(dbeta), expected_beta);
                });
            }
}

KERNEL_TEST(batch_norm_backward, "the input's gradient follows the loss, through the statistics too") {
    for_all([&](const BatchNormShape& s, uint) {
        const std::vector<float> x = random_x(s), dy = random_floats(s.size(), 4);
        for (const bool relu : {false, true})
            for (const bool global : {false, true}) { // statistics and sums of this tower's share, or of more
                INFO("relu ", relu, ", global ", global);
                const bool gamma_used = relu != global;
                BatchNorm norm = random_norm(s, widen(x));
                if (!gamma_used) norm.gamma.assign(s.channels, 1);
                if (global) norm.count *= 3;
                if (s.rows == 1) continue; // only rounding would remain
                on_every_device([&](Device& device) {
                    const Values passed = passed_of(device, norm, x, dy, gamma_used, relu);
                    GradientSums sums = reference::gradient_sums(norm, widen(x), passed);
                    if (global)
                        for (double& sum : sums.dy) sum = 3 * sum + 0.5;
                    sums = {widen(narrow(sums.dy)), widen(narrow(sums.xhat))};
                    check_near("dx", backward(device, norm, sums, x, dy, gamma_used, relu),
                               reference::batch_norm_gradient(norm, sums, widen(x), passed));
                });
            }
    });
}

TEST_CASE("backward finds a ReLU off exactly where forward had it off, to the last bit") {
    EverySource sources;
    const BatchNormShape s{1, 512, 13};
    const BatchNorm norm = random_norm(s, widen(random_x(s)));
    std::vector<float> x(s.size());
    for (std::size_t c = 0; c < s.channels; ++c) { // every float around the point where the output is zero
        const double slope = norm.gamma[c] / std::sqrt(norm.moments.m2[c] / norm.count + norm.epsilon);
        auto value = float(norm.moments.mean[c] - norm.beta[c] / slope);
        for (uint row = 0; row < s.rows / 2; ++row) value = std::nextafter(value, -infinity);
        for (uint row = 0; row < s.rows; ++row) {
            x[row * s.channels + c] = value;
            value = std::nextafter(value, infinity);
        }
    }
    const std::vector<float> ones(s.size(), 1);
    const GradientSums zeros{Values(s.channels), Values(s.channels)};
    sources.run([&](Device& device) {
        const std::vector<float> y = forward(device, norm, x, true, true, true);
        // Each row alone, with the statistics of all
        const std::vector<float> alone = sums_of_rows(device, norm, x, ones);
        const std::vector<float> dx = backward(device, norm, zeros, x, ones, true, true);
        std::size_t on = 0, different = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
            on += y[i] > 0;
            different += (y[i] > 0) != (alone[i] != 0) || (y[i] > 0) != (dx[i] != 0);
        }
        CHECK(on > y.size() / 4);
        CHECK(on < y.size() * 3 / 4);
        CHECK(different == 0);
    });
}

TEST_CASE("the gradient through statistics that do not depend on the input is a multiple of the output's") {
    for_all([&](const BatchNormShape& s, uint) {
        const std::vector<float> x = random_x(s), dy = random_floats(s.size(), 4);
        const BatchNorm norm = random_norm(s, widen(x));
        for (const bool relu : {false, true}) {
            INFO("relu ", relu);
            on_every_device([&](Device& device) {
                const GradientSums zeros{Values(s.groups * s.channels), Values(s.groups * s.channels)};
                const Values passed = passed_of(device, norm, x, dy, true, relu);
                check_near("dx", backward(device, norm, {}, x, dy, true, relu),
                           reference::batch_norm_gradient(norm, zeros, widen(x), passed));
            });
        }
    });
}

TEST_CASE("the reference batch norm gradients are the gradients of its output") {
    const BatchNormShape s{2, 7, 3};
    const Values x = widen(random_x(s)), dy = widen(random_floats(s.size(), 4));
    BatchNorm norm = random_norm(s, x);
    const auto loss = [&](const Values& values) {
        BatchNorm there = norm;
        there.moments = reference::moments(s, values);
        return reference::dot(reference::batch_norm(there, values), dy);
    };
    norm.moments = reference::moments(s, x);
    const GradientSums sums = reference::gradient_sums(norm, x, dy);
    CHECK(reference::relative_error(reference::batch_norm_gradient(norm, sums, x, dy),
                                    reference::finite_differences(x, loss)) < 1e-8);
    const auto of_groups = [&](const Values& v) {
        Values sum(s.channels);
        for (std::size_t i = 0; i < v.size(); ++i) sum[i % s.channels] += v[i];
        return sum;
    };
    const auto by_gamma = [&](const Values& gamma) {
        BatchNorm there = norm;
        there.gamma = gamma;
        return reference::dot(reference::batch_norm(there, x), dy);
    };
    CHECK(reference::relative_error(of_groups(sums.xhat),
                                    reference::finite_differences(norm.gamma, by_gamma)) < 1e-8);
    const auto by_beta = [&](const Values& beta) {
        BatchNorm there = norm;
        there.beta = beta;
        return reference::dot(reference::batch_norm(there, x), dy);
    };
    CHECK(reference::relative_error(of_groups(sums.dy), reference::finite_differences(norm.beta, by_beta)) <
          1e-8);
}

TEST_CASE("a NaN or infinity in one channel stays visible, and in that channel") {
    EverySource sources;
    const BatchNormShape s{1, 40, 13};
    sources.run([&](Device& device) {
        for (const float bad : {nan, infinity, -infinity})
            for (const std::size_t row : {0u, 7u, 39u}) { // first of a chunk, in the middle, in the last
                std::vector<float> x = random_x(s);
                x[row * s.channels + 5] = bad;
                const MeasuredMoments found = moments(device, s, 3, x);
                for (std::size_t c = 0; c < s.channels; ++c) {
                    const bool finite = std::isfinite(found.mean[c]) && std::isfinite(found.m2[c]);
                    CHECK(finite == (c != 5));
                }
                BatchNorm norm = random_norm(s, widen(x));
                norm.moments = {widen(found.mean), widen(found.m2)};
                const std::vector<float> y = forward(device, norm, x, true, true, true);
                CHECK(std::isnan(y[row * s.channels + 5]));
                CHECK(std::isfinite(y[row * s.channels + 4]));
                const std::vector<float> dy = random_floats(s.size(), 4);
                const MeasuredSums found_sums = sums(device, norm, 3, x, dy, true);
                const std::vector<float> dx =
                    backward(device, norm, {widen(found_sums.dy), widen(found_sums.xhat)}, x, dy, true, true);
                CHECK(std::isnan(dx[5]));
                CHECK(std::isfinite(dx[4]));
            }
    });
}

} // namespace towers
