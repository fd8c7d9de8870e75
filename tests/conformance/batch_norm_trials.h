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

/// Chunks: whole ones only, a last one that is shorter, one of all rows, and one that is longer than they.
struct Case {
    BatchNormShape shape;
    uint chunk_rows;
};
inline const Case cases[] = {
    {{1, 1, 1}, 1},     {{1, 13, 1}, 4},   {{3, 127, 1}, 32}, {{2, 64, 3}, 16},
    {{3, 127, 3}, 127}, {{1, 50, 13}, 64}, {{3, 31, 13}, 7},  {{2, 37, 64}, 8},
    {{1, 300, 64}, 1},  {{3, 21, 127}, 5}, {{1, 9, 127}, 4},  {{1, 500, 16}, 32},
};

template<class Function>
void for_all(Function function) {
    for (const Case& c : cases) {
        INFO(c.shape.groups, " groups, ", c.shape.rows, " rows, ", c.shape.channels, " channels, ",
             c.chunk_rows, " rows a chunk");
        function(c.shape, c.chunk_rows);
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

inline MeasuredMoments chunk_moments(Device& device, const BatchNormShape& s, uint chunk_rows,
                                     const std::vector<float>& x) {
    Trial trial(device, capacity);
    const uint items = s.groups * BATCH_NORM_CHUNKS(s.rows, chunk_rows) * s.channels;
    const Tensor in = trial.input(x), means = trial.output(items), m2s = trial.output(items);
    trial.run(
        launch(kernels::batch_norm_moments, {in, means, m2s, s.groups, s.rows, s.channels, chunk_rows}));
    return {trial.floats(means), trial.floats(m2s)};
}

inline MeasuredMoments merge(Device& device, const BatchNormShape& s, uint chunk_rows, uint run,
                             const MeasuredMoments& chunks) {
    Trial trial(device, capacity);
    const uint items = s.groups * BATCH_NORM_CHUNKS(BATCH_NORM_CHUNKS(s.rows, chunk_rows), run) * s.channels;
    const Tensor means = trial.input(chunks.mean), m2s = trial.input(chunks.m2), mean = trial.output(items),
                 m2 = trial.output(items);
    trial.run(launch(kernels::batch_norm_merge_moments,
                     {means, m2s, mean, m2, s.groups, s.rows, s.channels, chunk_rows, run}));
    return {trial.floats(mean), trial.floats(m2)};
}

/// As a step does it: chunks, then runs of them until one is left.
inline MeasuredMoments moments(Device& device, const BatchNormShape& s, uint chunk_rows,
                               const std::vector<float>& x) {
    MeasuredMoments found = chunk_moments(device, s, chunk_rows, x);
    for (; chunk_rows < s.rows; chunk_rows *= 3) found = merge(device, s, chunk_rows, 3, found);
    return found;
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

inline MeasuredSums chunk_sums(Device& device, const BatchNorm& n, uint chunk_rows,
                               const std::vector<float>& x, const std::vector<float>& dy, bool relu) {
    Trial trial(device, capacity);
    const BatchNormShape& s = n.shape;
    const uint items = s.groups * BATCH_NORM_CHUNKS(s.rows, chunk_rows) * s.channels;
    BatchNormBackwardSumsParams p{trial.input(x),
                                  trial.input(dy),
                                  trial.input(narrow(n.moments.mean)),
                                  trial.input(narrow(n.moments.m2)),
                                  {},
                                  {},
                                  {},
                                  {},
                                  s.groups,
                                  s.rows,
                                  s.channels,
                                  chunk_rows,
                                  float(n.count),
                                  float(n.epsilon),
                                  relu,
                                  relu,
                                  relu};
    if (relu) {
        p.gamma = trial.input(narrow(n.gamma));
        p.beta = trial.input(narrow(n.beta));
    }
    const Tensor dy_sums = trial.output(items), xhat_sums = trial.output(items);
    p.dy_sums = dy_sums;
    p.xhat_sums = xhat_sums;
    trial.run(launch(kernels::batch_norm_backward_sums, p));
    return {trial.floats(dy_sums), trial.floats(xhat_sums)};
}

inline MeasuredSums merge(Device& device, const BatchNormShape& s, uint chunks, uint run,
                          const MeasuredSums& sums) {
    Trial trial(device, capacity);
    const uint items = s.groups * BATCH_NORM_CHUNKS(chunks, run) * s.channels;
    const Tensor dy_sums = trial.input(sums.dy), xhat_sums = trial.input(sums.xhat), s1 = trial.output(items),
                 s2 = trial.output(items);
    trial.run(launch(kernels::batch_norm_merge_sums,
                     {dy_sums, xhat_sums, s1, s2, s.groups, chunks, s.channels, run}));
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
