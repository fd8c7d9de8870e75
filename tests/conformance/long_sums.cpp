// Sums over many pixels, which lose digits if one float32 takes them all one after another.
#include "tests/conformance/choosing.h"

#include <algorithm>
#include <cmath>

namespace towers {
namespace {

using namespace test;
using reference::padded_conv;
using reference::same_conv;
using reference::valid_conv;
using reference::Values;

/// As below a global average: all gradients that pass a ReLU are the same.
std::vector<float> equal_gradients(std::size_t count) {
    std::vector<float> dy = random_floats(count, 4);
    for (float& value : dy) value = value > 0 ? 0.013f : 0.0f;
    return dy;
}

double largest_error(const std::vector<float>& measured, const Values& expected) {
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(measured[i] - expected[i]));
        largest = std::max(largest, std::abs(expected[i]));
    }
    return worst / largest;
}

struct LongSums {
    Tensors t;
    Values dw, db;
    explicit LongSums(const ConvShape& s) : t(s) {
        t.dy = equal_gradients(t.dy.size());
        dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
        db = reference::conv2d_bias_gradient(s, widen(t.dy));
    }
    void check(Device& device, const Kernels& kernels, const ConvShape& s, double tolerance = 1e-5) const {
        const WeightGradients measured = weight_gradients(device, kernels, s, t, 0);
        CHECK(largest_error(measured.dw, dw) < tolerance);
        CHECK(largest_error(measured.db, db) < tolerance);
    }
};

/// Of a depthwise convolution's shared source, which adds up each row of pixels and then all rows, one after
/// another. An addition changes a sum by 2^-24 of it at most, and while equal numbers come together, the sums
/// are half of the last one on average; such errors may all have the same sign.
double tolerance_of_rows(const ConvShape& s) {
    const double additions = double(s.out_width) + double(s.batch) * s.out_height;
    return additions / 2 * 0x1p-24;
}

void check_on_cpu(const ConvShape& s, std::initializer_list<unsigned> numbers_of_threads) {
    const LongSums sums(s);
    for (const unsigned threads : numbers_of_threads) {
        INFO(threads, " threads, ", text(s));
        OpenOptions options = open_options();
        options.threads = threads;
        options.guarded = true;
        Choosing on("cpu", options);
        const Kernels& kernels = s.groups > 1 ? depthwise : general;
        CHECK(on.with_each(
                  launch(kernels.weights, {.shape = s, .bias = 1, .splits = 1}), [&](const Candidate& way) {
                      const bool by_rows = &kernels == &depthwise && way.variant == shared_source;
                      sums.check(*on.device, kernels, s, std::max(1e-5, by_rows ? tolerance_of_rows(s) : 0));
                  }) > 0);
    }
}

} // namespace

TEST_CASE(
    "gradients of many pixels keep their digits on the CPU, in every way and with any number of threads") {
    for (const ConvShape& s : {
             same_conv(16, 224, 224, 1, 1, 1, 1, 2),                         // pieces of rows
             same_conv(128, 64, 64, 3, 3, 3, 1, 5),                          // rows and padding
             same_conv(600, 32, 30, 2, 3, 3, 2, 3),                          // of several images
             padded_conv(2, 500, 700, 1, {{2, 3}, {1, 1}}, {2, 0, 1, 1}, 3), // a row sees only padding
             valid_conv(40, 32, 32, 3, {{1, 1}, {2, 2}}, 8),                 // gathered, of several images
             valid_conv(4, 129, 131, 7, {{1, 1}, {2, 2}}, 8),                // gathered, of rows
             same_conv(60, 16, 16, 40, {{5, 5}, {1, 1}}, 72),                // too many weights to share out
             same_conv(200000, 1, 1, 3, 1, 1, 1, 4),                         // a dense layer
             same_conv(30, 96, 96, 3, {{3, 3}, {1, 1}}, 3, 3),               // depthwise
             same_conv(16, 112, 112, 2, 3, 3, 1, 16), // implicit products, Winograd's method
         })
        check_on_cpu(s, {1, 3});
}

TEST_CASE("gradients of many pixels keep their digits on every device") {
    const ConvShape s = same_conv(4, 96, 96, 4, 3, 3, 1, 8);
    const LongSums sums(s);
    EverySource sources;
    sources.run(weight_gradients_of(general, s, true),
                [&](Device& device) { sums.check(device, general, s); });
}

TEST_CASE("gradients of many images of 224x224 pixels keep their digits" * doctest::test_suite("slow")) {
    for (const ConvShape& s :
         {same_conv(64, 224, 224, 3, 3, 3, 1, 8), same_conv(64, 224, 224, 3, 3, 3, 1, 16),
          same_conv(32, 224, 224, 8, {{3, 3}, {1, 1}}, 8, 8)})
        check_on_cpu(s, {1, 2, 12});
}

} // namespace towers
