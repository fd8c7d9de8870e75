// Winograd's transforms along one axis, by Toom and Cook: polynomials are multiplied by their values at the
// points 0, 1, -1, 2, -2, 1/2, -1/2 (as many as needed) and infinity. Points come in pairs +p and -p, whose
// transforms share their even and odd parts.
#pragma once

#include "backends/cpu/simd.h"

/// A call would pass every vector through memory.
#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace towers {
namespace {

constexpr double point_of_pair[] = {1.0, 2.0, 0.5};

constexpr double power(double base, size_t exponent) {
    double result = 1.0;
    for (size_t i = 0; i < exponent; ++i) result *= base;
    return result;
}

/// The product of (x^2 - p^2) over `pairs` pairs but `left_out`: its coefficients of 1, x^2, x^4, ...
template<size_t pairs>
struct EvenPolynomial {
    double of[pairs + 1] = {1.0};
    size_t degree = 0; ///< in x^2

    constexpr explicit EvenPolynomial(size_t left_out) {
        for (size_t pair = 0; pair < pairs; ++pair) {
            if (pair == left_out) continue;
            const double square = point_of_pair[pair] * point_of_pair[pair];
            ++degree;
            for (size_t k = degree + 1; k-- > 0;) of[k] = (k > 0 ? of[k - 1] : 0.0) - square * of[k];
        }
    }
    constexpr double at(double x) const {
        double sum = 0.0;
        for (size_t k = 0; k <= degree; ++k) sum += of[k] * power(x, 2 * k);
        return sum;
    }
};

/// Sum of coefficient k times d[2 k * stride]; the last coefficient is 1.
template<size_t pairs, size_t left_out, size_t stride>
ALWAYS_INLINE Vector even_sum(const Vector* d) {
    constexpr EvenPolynomial<pairs> polynomial(left_out);
    Vector sum = d[2 * polynomial.degree * stride];
    for (size_t k = polynomial.degree; k-- > 0;)
        sum = fma(all(float(polynomial.of[k])), d[2 * k * stride], sum);
    return sum;
}

template<size_t alpha, size_t pair, size_t from, size_t to>
ALWAYS_INLINE void input_pair(const Vector* d, Vector* v) {
    constexpr size_t pairs = alpha / 2 - 1;
    if constexpr (pair < pairs) {
        const Vector even = even_sum<pairs, pair, from>(d + 2 * from);
        const Vector odd = all(float(point_of_pair[pair])) * even_sum<pairs, pair, from>(d + from);
        v[(1 + 2 * pair) * to] = even + odd;
        v[(2 + 2 * pair) * to] = even - odd;
        input_pair<alpha, pair + 1, from, to>(d, v);
    }
}

/// alpha values of the input -> alpha points. `from` and `to` are strides.
template<size_t alpha, size_t from, size_t to>
ALWAYS_INLINE void transform_input(const Vector* d, Vector* v) {
    constexpr size_t pairs = alpha / 2 - 1, none = pairs;
    v[0] = even_sum<pairs, none, from>(d);
    v[(alpha - 1) * to] = even_sum<pairs, none, from>(d + from);
    input_pair<alpha, 0, from, to>(d, v);
}

/// The factors of a pair's transform of weights, which must be known when the program is compiled.
template<size_t pairs, size_t pair, size_t taps>
struct WeightFactors {
    float of[taps];
    constexpr WeightFactors() : of{} {
        const double p = point_of_pair[pair];
        const double scale = 1.0 / (2.0 * p * p * EvenPolynomial<pairs>(pair).at(p));
        for (size_t k = 0; k < taps; ++k) of[k] = float(scale * power(p, k));
    }
};

template<size_t alpha, size_t taps, size_t pair, size_t from, size_t to>
ALWAYS_INLINE void weights_pair(const Vector* g, Vector* u) {
    constexpr size_t pairs = alpha / 2 - 1;
    if constexpr (pair < pairs) {
        constexpr WeightFactors<pairs, pair, taps> factors;
        Vector even = all(factors.of[0]) * g[0], odd = all(factors.of[1]) * g[from];
#pragma GCC unroll 8
        for (size_t k = 2; k < taps; ++k)
            (k % 2 == 0 ? even : odd) = fma(all(factors.of[k]), g[k * from], k % 2 == 0 ? even : odd);
        u[(1 + 2 * pair) * to] = even + odd;
        u[(2 + 2 * pair) * to] = even - odd;
        weights_pair<alpha, taps, pair + 1, from, to>(g, u);
    }
}

/// `taps` weights (or pixels of dy) -> alpha points
template<size_t alpha, size_t taps, size_t from, size_t to>
ALWAYS_INLINE void transform_weights(const Vector* g, Vector* u) {
    constexpr size_t pairs = alpha / 2 - 1;
    constexpr auto scale = float(1.0 / EvenPolynomial<pairs>(pairs).at(0.0));
    u[0] = all(scale) * g[0];
    u[(alpha - 1) * to] = g[(taps - 1) * from];
    weights_pair<alpha, taps, 0, from, to>(g, u);
}

/// alpha points -> `results` values
template<size_t alpha, size_t results, size_t from, size_t to>
ALWAYS_INLINE void transform_output(const Vector* m, Vector* y) {
    constexpr size_t pairs = alpha / 2 - 1;
    Vector sum[pairs], difference[pairs];
#pragma GCC unroll 4
    for (size_t pair = 0; pair < pairs; ++pair) {
        sum[pair] = m[(1 + 2 * pair) * from] + m[(2 + 2 * pair) * from];
        difference[pair] = m[(1 + 2 * pair) * from] - m[(2 + 2 * pair) * from];
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < results; ++j) {
        Vector value = j % 2 == 0 ? sum[0] : difference[0]; // the first point is 1
#pragma GCC unroll 4
        for (size_t pair = 1; pair < pairs; ++pair)
            value = fma(all(float(power(point_of_pair[pair], j))), j % 2 == 0 ? sum[pair] : difference[pair],
                        value);
        if (j == 0) value = value + m[0];
        if (j == results - 1) value = value + m[(alpha - 1) * from];
        y[j * to] = value;
    }
}

} // namespace
} // namespace towers
