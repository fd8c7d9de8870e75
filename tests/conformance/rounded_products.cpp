// What holds for every way to compute a product that rounds its factors: by fragments on a card, and on a
// CPU.
#include "tests/conformance/choosing.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace towers {
namespace {

using namespace test;
using reference::same_conv;
using reference::Values;

template<class Function>
void with_each_that_rounds(Choosing& on, const Launch& launch, Function run) {
    on.with_each(launch, [&](const Candidate& way) {
        if (rounds(way)) run(way);
    });
}

/// The part of the result that the error is on average: -0.01 if the result is too small by a hundredth.
double bias_of(const std::vector<float>& measured, const Values& expected) {
    double product = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) product += (measured[i] - expected[i]) * expected[i];
    return product / reference::dot(expected, expected);
}

/// How much of the error is a part of the result.
double correlation_of(const std::vector<float>& measured, const Values& expected) {
    return bias_of(measured, expected) / normalized_error(measured, expected);
}

} // namespace

TEST_CASE("neither rounded factors nor long sums of their products are smaller on average") {
    with_each_rounding([](Choosing& on, Precision precision) {
        const ConvShape s = same_conv(1, 8, 8, 128, 5, 5, 1, 64);
        const Tensors t(s), r = rounded(t, precision);
        const auto y_of = [&](const Tensors& of) {
            return reference::relu(reference::conv2d(s, widen(of.x), widen(of.w), widen(of.b)));
        };
        const Values exact = y_of(t), of_rounded = y_of(r);
        with_each_that_rounds(
            on, launch(kernels::conv2d_forward, {.shape = s, .relu = 1, .bias = 1, .splits = 1}),
            [&](const Candidate& way) {
                const std::vector<float> y = forward(*on.device, general, s, t, true);
                // Units that truncate 200 sums one after the other would take away some 3e-6.
                CHECK(std::abs(bias_of(y, of_rounded)) < 5e-7);
                if (way.config.operands != Precision::fp32)
                    CHECK(std::abs(correlation_of(y, exact)) < 0.1); // of factors that are cut off it is .9
            });
    });
}

TEST_CASE(
    "NaN and infinity pass through products with rounded factors, and no tap beside the image sees any") {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float largest = std::numeric_limits<float>::max();
    with_each_rounding([](Choosing& on, Precision precision) {
        Device& device = *on.device;
        const bool is_cpu = device.info().kind == DeviceKind::cpu;
        const ConvShape s = is_cpu ? same_conv(2, 6, 5, 32, 3, 3, 1, 32) : same_conv(2, 6, 7, 8, 3, 3, 1, 12);
        for (const float strange : {std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0x7fffffffu),
                                    std::bit_cast<float>(0xffffffffu), infinity, 70000.0f,
                                    precision == Precision::fp32 ? 1.0f : largest}) {
            INFO(strange);
            Tensors t(s);
            // Not at an image's edge, where 0 * infinity of the padding may be NaN.
            const std::size_t pixel = 2 * s.in_width + 3, last_image = s.in_height * s.in_width;
            t.x[pixel * s.in_channels + 3] = strange;
            t.dy[(last_image + pixel) * s.out_channels + 7] = -strange;
            const Tensors r = rounded(t, precision);
            const Values y = reference::conv2d(s, widen(r.x), widen(r.w), widen(r.b));
            with_each_that_rounds(on, forward_of(general, s, true), [&](const Candidate& way) {
                check_near("y", forward(device, general, s, t, false), y, tolerance_of(way));
            });
            const Values dx = reference::conv2d_data_gradient(s, widen(r.w), widen(r.dy));
            with_each_that_rounds(on, data_gradient_of(general, s), [&](const Candidate& way) {
                check_near("dx", data_gradient(device, general, s, t, false), dx, tolerance_of(way));
            });
            const Values dw = reference::conv2d_weights_gradient(s, widen(r.x), widen(r.dy));
            with_each_that_rounds(on, weight_gradients_of(general, s, true), [&](const Candidate& way) {
                const WeightGradients measured = weight_gradients(device, general, s, t, 0);
                check_near("dw", measured.dw, dw, tolerance_of(way));
                // Fragments add up what they multiply, a CPU the gradients themselves.
                const Values dy = widen(is_cpu ? t.dy : r.dy), db = reference::conv2d_bias_gradient(s, dy);
                check_near("db", measured.db, db, cancelling(dy, db) * tolerance_of(way));
            });
        }
    });
}

} // namespace towers
