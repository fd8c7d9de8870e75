// Sums over many pixels, which lose digits if one float32 takes them all one after another.
#include "tests/conformance/choosing.h"

#include <cmath>

namespace towers {
namespace {

using namespace test;
using reference::padded_conv;
using reference::same_conv;
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

void check_long_sums(unsigned threads, const ConvShape& s) {
    OpenOptions options = open_options();
    options.threads = threads;
    Choosing on("cpu", options);
    INFO(threads, " threads, ", text(s));
    Tensors t(s);
    t.dy = equal_gradients(t.dy.size());
    const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
    const Values db = reference::conv2d_bias_gradient(s, widen(t.dy));
    const Kernels& kernels = s.groups > 1 ? depthwise : general;
    on.with_each(launch(kernels.weights, {.shape = s, .bias = 1, .splits = 1}), [&](double) {
        const WeightGradients measured = weight_gradients(*on.device, kernels, s, t, 0);
        const double of_weights = largest_error(measured.dw, dw), of_biases = largest_error(measured.db, db);
        MESSAGE(of_weights, " ", of_biases);
        CHECK(of_weights < 1e-5);
        CHECK(of_biases < 1e-5);
    });
}

const ConvShape shapes[] = {
    same_conv(16, 224, 224, 1, 1, 1, 1, 2), // more pixels than an image's rows should add up
    same_conv(128, 64, 64, 3, 3, 3, 1, 5),  // pieces of rows
    same_conv(600, 32, 30, 2, 3, 3, 2, 3),  // of several images
    padded_conv(2, 500, 700, 1, {{2, 3}, {1, 1}}, {2, 0, 1, 1}, 3), // a row is padding only
    same_conv(200000, 1, 1, 3, 1, 1, 1, 4),                         // a dense layer
    same_conv(30, 96, 96, 3, {{3, 3}, {1, 1}}, 3, 3),               // depthwise
    same_conv(16, 112, 112, 2, 3, 3, 1, 16),                        // implicit products and Winograd's method
};

} // namespace

TEST_CASE(
    "gradients of many pixels keep their digits on the CPU, in every way and with any number of threads") {
    for (const ConvShape& s : shapes)
        for (const unsigned threads : {1u, 3u}) check_long_sums(threads, s);
}

TEST_CASE("gradients of 64 images of 224x224 pixels keep their digits" * doctest::test_suite("slow")) {
    for (const ConvShape& s :
         {same_conv(64, 224, 224, 3, 3, 3, 1, 8), same_conv(64, 224, 224, 3, 3, 3, 1, 16),
          same_conv(64, 224, 224, 8, {{3, 3}, {1, 1}}, 8, 8)})
        for (const unsigned threads : {1u, 2u, 12u}) check_long_sums(threads, s);
}

} // namespace towers
