#include "tests/conformance/reference_elementwise.h"

#include <cmath>

namespace towers::reference {
namespace {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }
double normal_below(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
/// The argument of the tanh in gelu's approximation
double inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
double inner_slope(double x) { return std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x); }

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
// (1 + tanh(v)) / 2 is logistic(2 v), which keeps its digits where it is small.
const Activation gelu_tanh{[](double x) { return x * logistic(2 * inner(x)); },
                           [](double x) {
                               const double both = logistic(2 * inner(x)) * logistic(-2 * inner(x));
                               return logistic(2 * inner(x)) + (both > 0 ? x * both * 2 * inner_slope(x)
                                                                         : 0); // the slope may overflow
                           }};
const Activation leaky_relu{[](double x) { return x > 0 ? x : leaky_slope * x; },
                            [](double x) { return x > 0 ? 1 : double(leaky_slope); }};
const Activation hard_swish{[](double x) {
                                if (x < -3) return 0 * x;
                                return x > 3 ? x : x * (x + 3) / 6;
                            },
                            [](double x) { return x < -3  ? 0
                                                  : x > 3 ? 1
                                                          : x / 3 + 0.5; }};
const Activation softplus{[](double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); },
                          logistic};

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
