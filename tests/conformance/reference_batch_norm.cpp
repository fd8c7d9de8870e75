#include "tests/conformance/reference_batch_norm.h"

#include <cmath>

namespace towers::reference {
namespace {

/// Calls `visit` with the index of each value of x and that of its group and channel.
template<class Visit>
void for_each(const BatchNormShape& shape, Visit visit) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const std::size_t channel = i % shape.channels, group = i / shape.channels / shape.rows;
        visit(i, group * shape.channels + channel);
    }
}

double deviation(const BatchNorm& n, std::size_t of_group) {
    return std::sqrt(n.moments.m2[of_group] / n.count + n.epsilon);
}

} // namespace

Moments moments(const BatchNormShape& shape, const Values& x) {
    const std::size_t statistics = std::size_t(shape.groups) * shape.channels;
    Moments found{Values(statistics), Values(statistics)};
    for_each(shape, [&](std::size_t i, std::size_t s) { found.mean[s] += x[i]; });
    for (double& mean : found.mean) mean /= shape.rows;
    for_each(shape, [&](std::size_t i, std::size_t s) { found.m2[s] += std::pow(x[i] - found.mean[s], 2); });
    return found;
}

Moments merged(const std::vector<double>& counts, const std::vector<Moments>& parts) {
    Moments all = parts[0];
    double count = counts[0];
    for (std::size_t part = 1; part < parts.size(); ++part) {
        const double sum = count + counts[part];
        for (std::size_t i = 0; i < all.mean.size(); ++i) {
            const double difference = parts[part].mean[i] - all.mean[i];
            all.mean[i] += difference * counts[part] / sum;
            all.m2[i] += parts[part].m2[i] + difference * difference * count * counts[part] / sum;
        }
        count = sum;
    }
    return all;
}

Values batch_norm(const BatchNorm& n, const Values& x) {
    Values y(x.size());
    for_each(n.shape, [&](std::size_t i, std::size_t s) {
        y[i] = (x[i] - n.moments.mean[s]) / deviation(n, s) * n.gamma[s % n.shape.channels] +
               n.beta[s % n.shape.channels];
    });
    return y;
}

GradientSums gradient_sums(const BatchNorm& n, const Values& x, const Values& dy) {
    GradientSums sums{Values(n.moments.mean.size()), Values(n.moments.mean.size())};
    for_each(n.shape, [&](std::size_t i, std::size_t s) {
        sums.dy[s] += dy[i];
        sums.xhat[s] += dy[i] * (x[i] - n.moments.mean[s]) / deviation(n, s);
    });
    return sums;
}

Values batch_norm_gradient(const BatchNorm& n, const GradientSums& sums, const Values& x, const Values& dy) {
    Values dx(x.size());
    for_each(n.shape, [&](std::size_t i, std::size_t s) {
        const double xhat = (x[i] - n.moments.mean[s]) / deviation(n, s);
        dx[i] = n.gamma[s % n.shape.channels] / deviation(n, s) *
                (dy[i] - sums.dy[s] / n.count - xhat * sums.xhat[s] / n.count);
    });
    return dx;
}

} // namespace towers::reference
