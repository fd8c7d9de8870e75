#include "tests/conformance/batch_norm_trials.h"

#include <cmath>

namespace towers {
namespace {

using namespace test;

} // namespace

KERNEL_TEST(batch_norm_moments, "each group's mean and deviation are those of all its rows") {
    EverySource sources;
    for_all([&](const BatchNormShape& s, uint splits) {
        const std::vector<float> x = random_x(s);
        const Moments expected = reference::moments(s, widen(x));
        sources.run([&](Device& device) {
            const MeasuredMoments found = moments(device, s, splits, x);
            check_near("mean", found.mean, expected.mean);
            check_near("m2", found.m2, expected.m2);
        });
    });
}

KERNEL_TEST(batch_norm_merge_moments, "no split's rows are lost, or count more than others") {
    EverySource sources;
    for (const uint groups : {1u, 3u})
        for (const uint channels : {1u, 13u, 64u})
            for (const uint splits : {1u, 7u, 64u, 300u}) {
                INFO(groups, " groups, ", channels, " channels, ", splits, " splits");
                const uint rows = 2 * splits + splits / 2; // the first splits have one more than the others
                const std::vector<float> means = random_floats(groups * splits * channels, 1, -1, 2),
                                         m2s = random_floats(means.size(), 2, 0, 3);
                Moments expected;
                for (std::size_t group = 0; group < groups; ++group) {
                    std::vector<double> counts;
                    std::vector<Moments> parts;
                    for (uint split = 0; split < splits; ++split) {
                        const auto first = std::ptrdiff_t((group * splits + split) * channels);
                        const auto part = [&](const std::vector<float>& of) {
                            return Values(of.begin() + first, of.begin() + first + channels);
                        };
                        counts.push_back(SPLIT_ROWS(rows, splits, split));
                        parts.push_back({part(means), part(m2s)});
                    }
                    const Moments merged = reference::merged(counts, parts);
                    expected.mean.insert(expected.mean.end(), merged.mean.begin(), merged.mean.end());
                    expected.m2.insert(expected.m2.end(), merged.m2.begin(), merged.m2.end());
                }
                sources.run([&](Device& device) {
                    Trial trial(device, capacity);
                    const Tensor mean = trial.output(groups * channels), m2 = trial.output(groups * channels);
                    trial.run(
                        launch(kernels::batch_norm_merge_moments, {trial.input(means), trial.input(m2s), mean,
                                                                   m2, groups, rows, channels, splits}));
                    check_near("mean", trial.floats(mean), expected.mean);
                    check_near("m2", trial.floats(m2), expected.m2);
                });
            }
}

TEST_CASE("a mean of a thousand deviations does not cost the variance precision") {
    EverySource sources;
    const BatchNormShape s{2, 333, 13};
    std::vector<float> x = random_floats(s.size(), 1);
    for (float& value : x) value += 577; // the deviation is 1 / sqrt(3)
    const Moments expected = reference::moments(s, widen(x));
    sources.run([&](Device& device) {
        const MeasuredMoments found = moments(device, s, 11, x);
        check_near("mean", found.mean, expected.mean, 1e-7); // a rounding of float32
        check_near("m2", found.m2, expected.m2, 1e-5); // each split's mean is rounded to 1e-4 deviations
    });
}

TEST_CASE("a channel that is constant has no variance and normalizes to its beta") {
    EverySource sources;
    const BatchNormShape s{2, 77, 3};
    std::vector<float> x = random_floats(s.size(), 1);
    for (std::size_t i = 1; i < x.size(); i += s.channels) x[i] = 1.0f / 3;
    sources.run([&](Device& device) {
        const MeasuredMoments found = moments(device, s, 5, x);
        for (const uint group : {0u, 1u}) {
            CHECK(found.mean[group * s.channels + 1] == 1.0f / 3);
            CHECK(found.m2[group * s.channels + 1] == 0);
        }
        BatchNorm norm = random_norm(s, widen(x));
        norm.moments = {widen(found.mean), widen(found.m2)};
        const std::vector<float> y = forward(device, norm, x, true, true, false);
        bool all_beta = true;
        for (std::size_t i = 1; i < y.size(); i += s.channels) all_beta &= y[i] == float(norm.beta[1]);
        CHECK(all_beta);
    });
}

TEST_CASE("statistics of towers that share a batch 3:1 are those of the whole batch") {
    EverySource sources;
    const BatchNormShape whole{1, 128, 13}, large{1, 96, 13}, small{1, 32, 13};
    const std::vector<float> x = random_x(whole, 5);
    const auto cut = x.begin() + std::ptrdiff_t(large.size());
    const Moments expected = reference::moments(whole, widen(x));
    sources.run([&](Device& device) {
        const MeasuredMoments first = moments(device, large, 4, {x.begin(), cut}),
                              second = moments(device, small, 2, {cut, x.end()}),
                              all = moments(device, whole, 6, x);
        const Moments merged = reference::merged(
            {96, 32}, {{widen(first.mean), widen(first.m2)}, {widen(second.mean), widen(second.m2)}});
        check_near("merged mean", narrow(merged.mean), expected.mean);
        check_near("merged m2", narrow(merged.m2), expected.m2);
        check_near("mean of the whole", all.mean, merged.mean);
        check_near("m2 of the whole", all.m2, merged.m2);
    });
}

KERNEL_TEST(batch_norm_forward, "every channel gets the mean beta and the deviation gamma") {
    for_all([&](const BatchNormShape& s, uint) {
        const std::vector<float> x = random_x(s);
        for (const bool gamma_used : {false, true})
            for (const bool beta_used : {false, true}) {
                INFO("gamma ", gamma_used, ", beta ", beta_used);
                const bool relu = gamma_used != beta_used;
                BatchNorm norm = random_norm(s, widen(x));
                norm.count = s.rows * (relu ? 2 : 1); // as with statistics of several towers
                if (!gamma_used) norm.gamma.assign(s.channels, 1);
                if (!beta_used) norm.beta.assign(s.channels, 0);
                const std::vector<float> addend = beta_used ? random_x(s) : std::vector<float>();
                Values expected = reference::batch_norm(norm, widen(x));
                for (std::size_t i = 0; i < addend.size(); ++i) expected[i] += double(addend[i]);
                if (relu) expected = reference::relu(expected);
                on_every_device([&](Device& device) {
                    check_near("y", forward(device, norm, x, gamma_used, beta_used, relu, addend), expected);
                });
            }
    });
}

KERNEL_TEST(batch_norm_statistics, "evaluation sees the mean and variance of all groups") {
    for (const uint groups : {1u, 2u, 3u})
        for (const uint channels : {1u, 3u, 127u}) {
            INFO(groups, " groups, ", channels, " channels");
            const float divisor = 31, scale = 1.0f / 5;
            const std::vector<float> means = random_floats(groups * channels, 1, 0, 1),
                                     m2s = random_floats(groups * channels, 2, 0, 32);
            Values expected_mean(channels), expected_variance(channels);
            for (std::size_t i = 0; i < means.size(); ++i) {
                expected_mean[i % channels] += double(scale) * means[i];
                expected_variance[i % channels] += double(scale) * m2s[i] / divisor;
            }
            on_every_device([&](Device& device) {
                Trial trial(device, capacity);
                const Tensor mean = trial.input(means), m2 = trial.input(m2s),
                             out_mean = trial.output(channels), out_variance = trial.output(channels);
                trial.run(launch(kernels::batch_norm_statistics,
                                 {mean, m2, out_mean, out_variance, groups, channels, divisor, scale}));
                check_near("mean", trial.floats(out_mean), expected_mean);
                check_near("variance", trial.floats(out_variance), expected_variance);
            });
        }
}

} // namespace towers
