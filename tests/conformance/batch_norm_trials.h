// What the tests of batch normalization share: their cases, and each kernel run once on a device.
#pragma once

#include "tests/conformance/harness.h"
#include "tests/conformance/reference_batch_norm.h"

#include <algorithm>

namespace towers::test {

using reference::BatchNorm;
using reference::BatchNormShape;
using reference::GradientSums;
using reference::Moments;
using reference::Values;

constexpr float epsilon = 1e-3f;
constexpr std::size_t capacity = std::size_t(512) << 10; // of a trial

/// Into how many parts backends split the sums over rows: as suits them, or so many.
struct Case {
    BatchNormShape shape;
    uint splits;
};
inline const Case cases[] = {
    {{1, 1, 1}, 0},     {{1, 1, 5}, 3},    {{1, 13, 1}, 4},    {{3, 127, 1}, 4},  {{2, 64, 3}, 4},
    {{3, 127, 3}, 1},   {{1, 50, 13}, 2},  {{3, 31, 13}, 31},  {{2, 37, 64}, 5},  {{1, 300, 64}, 300},
    {{3, 21, 127}, 40}, {{1, 9, 133}, 3},  {{1, 500, 16}, 16}, {{1, 1500, 4}, 0}, {{2, 900, 20}, 1},
    {{1, 70, 260}, 0},  {{5, 200, 12}, 0},
};

template<class Function>
void for_all(Function function) {
    for (const Case& c : cases) {
        INFO(c.shape.groups, " groups, ", c.shape.rows, " rows, ", c.shape.channels, " channels, ", c.splits,
             " splits");
        function(c.shape, c.splits);
    }
}

/// Channels of different means and deviations.
inline std::vector<float> random_x(const BatchNormShape& shape, float offset = 0.5f) {
    std::vector<float> x = random_floats(shape.size(), 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto channel = float(i % shape.channels);
        x[i] = x[i] * (1 + 0.1f * channel) + offset * (channel - 1);
    }
    return x;
}

/// The layer with statistics of x as float32 has them.
inline BatchNorm random_norm(const BatchNormShape& shape, const Values& x) {
    const Moments exact = reference::moments(shape, x);
    return {shape,
            {widen(narrow(exact.mean)), widen(narrow(exact.m2))},
            double(shape.rows),
            double(epsilon),
            widen(random_floats(shape.channels, 2, 0.5f, 1.5f)),
            widen(random_floats(shape.channels, 3))};
}

struct MeasuredMoments {
    std::vector<float> mean, m2;
};

inline MeasuredMoments moments(Device& device, const BatchNormShape& s, uint splits,
                               const std::vector<float>& x) {
    Trial trial(device, capacity);
    const uint results = s.groups * s.channels;
    const Tensor in = trial.input(x), mean = trial.output(results), m2 = trial.output(results);
    trial.run(launch(kernels::batch_norm_moments, {in, mean, m2, s.groups, s.rows, s.channels, 1}), splits);
    return {trial.floats(mean), trial.floats(m2)};
}

inline std::vector<float> forward(Device& device, const BatchNorm& n, const std::vector<float>& x,
                                  bool gamma_used, bool beta_used, bool relu,
                                  const std::vector<float>& addend = {}) {
    Trial trial(device, capacity);
    const BatchNormShape& s = n.shape;
    BatchNormForwardParams p{trial.input(x),
                             trial.input(narrow(n.moments.mean)),
                             trial.input(narrow(n.moments.m2)),
                             {},
                             {},
                             {},
                             {},
                             s.groups,
                             s.rows,
                             s.channels,
                             float(n.count),
                             float(n.epsilon),
                             gamma_used,
                             beta_used,
                             !addend.empty(),
                             relu};
    if (gamma_used) p.gamma = trial.input(narrow(n.gamma)); // else null, and must not be read
    if (beta_used) p.beta = trial.input(narrow(n.beta));
    if (!addend.empty()) p.addend = trial.input(addend);
    const Tensor y = trial.output(x.size());
    p.y = y;
    trial.run(launch(kernels::batch_norm_forward, p));
    return trial.floats(y);
}

struct MeasuredSums {
    std::vector<float> dy, xhat;
};

inline MeasuredSums sums(Device& device, const BatchNorm& n, uint splits, const std::vector<float>& x,
                         const std::vector<float>& dy, bool relu) {
    Trial trial(device, capacity);
    const BatchNormShape& s = n.shape;
    BatchNormBackwardSumsParams p{.groups = s.groups,
                                  .rows = s.rows,
                                  .channels = s.channels,
                                  .splits = 1,
                                  .count = float(n.count),
                                  .epsilon = float(n.epsilon),
                                  .gamma_used = relu,
                                  .beta_used = relu,
                                  .relu = relu};
    p.x = trial.input(x);
    p.dy = trial.input(dy);
    p.mean = trial.input(narrow(n.moments.mean));
    p.m2 = trial.input(narrow(n.moments.m2));
    if (relu) {
        p.gamma = trial.input(narrow(n.gamma));
        p.beta = trial.input(narrow(n.beta));
    }
    const Tensor s1 = trial.output(s.groups * s.channels), s2 = trial.output(s.groups * s.channels);
    p.s1 = s1;
    p.s2 = s2;
    trial.run(launch(kernels::batch_norm_backward_sums, p), splits);
    return {trial.floats(s1), trial.floats(s2)};
}

/// `sums`: empty for statistics that do not depend on x.
inline std::vector<float> backward(Device& device, const BatchNorm& n, const GradientSums& sums,
                                   const std::vector<float>& x, const std::vector<float>& dy, bool gamma_used,
                                   bool relu) {
    Trial trial(device, capacity);
    const BatchNormShape& s = n.shape;
    const bool sums_used = !sums.dy.empty();
    BatchNormBackwardParams p{trial.input(x),
                              trial.input(dy),
                              trial.input(narrow(n.moments.mean)),
                              trial.input(narrow(n.moments.m2)),
                              {},
                              {},
                              {},
                              {},
                              {},
                              s.groups,
                              s.rows,
                              s.channels,
                              float(n.count),
                              float(n.epsilon),
                              gamma_used,
                              relu,
                              sums_used,
                              relu};
    if (sums_used) { // else null, and must not be read
        p.s1 = trial.input(narrow(sums.dy));
        p.s2 = trial.input(narrow(sums.xhat));
    }
    if (relu) p.beta = trial.input(narrow(n.beta));
    if (gamma_used) p.gamma = trial.input(narrow(n.gamma));
    const Tensor dx = trial.output(x.size());
    p.dx = dx;
    trial.run(launch(kernels::batch_norm_backward, p));
    return trial.floats(dx);
}

} // namespace towers::test
