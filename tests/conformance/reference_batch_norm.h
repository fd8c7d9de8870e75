// Batch normalization in double precision, from Ioffe & Szegedy 2015, algorithm 1, and its derivatives.
#pragma once

#include "tests/conformance/reference.h"

namespace towers::reference {

/// x: [groups, rows, channels]; each group has statistics of its own.
struct BatchNormShape {
    uint groups, rows, channels;
    std::size_t size() const { return std::size_t(groups) * rows * channels; }
};

/// [groups, channels]; m2 = sum of (x - mean)^2.
struct Moments {
    Values mean, m2;
};
Moments moments(const BatchNormShape& shape, const Values& x);

/// The moments of all values from those of parts of `counts` values each (Chan et al. 1979).
Moments merged(const std::vector<double>& counts, const std::vector<Moments>& parts);

/// The normalization. count: the number of values in m2; gamma, beta: [channels].
struct BatchNorm {
    BatchNormShape shape;
    Moments moments;
    double count, epsilon;
    Values gamma, beta;
};
Values batch_norm(const BatchNorm& norm, const Values& x);

/// Sums over the rows of each group, [groups, channels]: of dy, and of dy * xhat.
struct GradientSums {
    Values dy, xhat;
};
GradientSums gradient_sums(const BatchNorm& norm, const Values& x, const Values& dy);
Values batch_norm_gradient(const BatchNorm& norm, const GradientSums& sums, const Values& x,
                           const Values& dy);

} // namespace towers::reference
