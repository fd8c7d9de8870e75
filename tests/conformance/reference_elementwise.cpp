#include "tests/conformance/reference_elementwise.h"

#include <cmath>

namespace towers::reference {
namespace {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double normal_below(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

} // namespace

const Activation relu_function{[](double x) { return x < 0 ? 0 : x; },
                               [](double x) { return x > 0 ? 1.0 : 0.0; }};
const Activation relu6{[](double x) { return x < 0   ? 0
                                             : x > 6 ? 6
                                                     : x; },
                       [](double x) { return x > 0 && x < 6 ? 1.0 : 0.0; }};
const Activation sigmoid{logistic, [](double x) { return logistic(x) * logistic(-x); }};
const Activation silu{[](double x) { return x * logistic(x); },
                      [](double x) { return logistic(x) + x * logistic(x) * logistic(-x); }};
const Activation gelu{[](double x) { return x * normal_below(x); },
                      [](double x) { return normal_below(x) + x * normal_density(x); }};

Values multiply_broadcast(uint pixels, uint channels, Values a, const Values& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] *= b[i / channels / pixels * channels + i % channels];
    return a;
}

Values multiply_broadcast_scale_gradient(uint pixels, uint channels, const Values& a, const Values& dy) {
    Values db(a.size() / pixels);
    for (std::size_t i = 0; i < a.size(); ++i)
        db[i / channels / pixels * channels + i % channels] += a[i] * dy[i];
    return db;
}

} // namespace towers::reference
