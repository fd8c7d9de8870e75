// Winograd's convolutions of the CPU backend: they round more than others, so they have bounds of their own.
#include "tests/conformance/choosing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::padded_conv;
using reference::same_conv;
using reference::valid_conv;
using reference::Values;

constexpr double tolerance = winograd_tolerance;

/// Runs a test with each size of tile that suits a shape, wherever a device has Winograd's convolutions.
template<class Function>
void with_each_tile(const ConvShape& s, Function function) {
    for (const unsigned tile : {2u, 4u}) {
        const LimitConfigs limited({.winograd_tile = tile});
        on_every_device([&](Device& device) {
            const bool has = variant_of(device, launch(kernels::conv2d_forward, {.shape = s})) == "Winograd";
            if (device.info().kind != DeviceKind::cpu) return;
            INFO(text(s), ", tiles of ", tile, "x", tile);
            if (!has)
                MESSAGE("SKIPPED: this processor, or the limit on oneDNN's, has no Winograd convolutions");
            else
                function(device);
        });
    }
}

const std::vector<ConvShape>& shapes() {
    static const std::vector<ConvShape> all{
        same_conv(1, 1, 1, 1, 3, 3, 1, 1), // all but one pixel are padding
        same_conv(3, 5, 7, 3, 3, 3, 1, 13),
        same_conv(2, 8, 8, 64, 3, 3, 1, 64),
        same_conv(1, 4, 4, 127, 3, 3, 1, 130),
        same_conv(9, 4, 5, 150, 3, 3, 1, 129), // few tiles and many weights
        same_conv(1, 2, 3, 300, 3, 3, 1, 17),  // deeper than one sum
        same_conv(40, 3, 2, 16, 3, 3, 1, 24),  // several blocks of tiles
        same_conv(1, 5, 7, 13, 5, 5, 1, 3),
        same_conv(2, 12, 12, 64, 5, 5, 1, 64), // as in the tutorial
        same_conv(50, 2, 2, 24, 5, 5, 1, 48),
        valid_conv(3, 12, 9, 5, 3, 3, 1, 33),
        valid_conv(1, 11, 12, 8, 5, 5, 1, 16),
        padded_conv(1, 6, 5, 24, {{3, 3}, {1, 1}}, {0, 2, 1, 0}, 8),
        padded_conv(2, 5, 6, 30, {{5, 5}, {1, 1}}, {4, 1, 0, 3}, 50), // some windows see only padding
        padded_conv(1, 4, 5, 16, {{3, 3}, {1, 1}}, {4, 3, 3, 5}, 16), // more padding than the window reaches
    };
    return all;
}

} // namespace

TEST_CASE("Winograd: the network sees its images through the right filters") {
    for (const ConvShape& s : shapes())
        for (const bool bias : {true, false}) {
            const Tensors t(s, bias);
            const Values sums = reference::conv2d(s, widen(t.x), widen(t.w), widen(t.b));
            with_each_tile(s, [&](Device& device) {
                check_near("y", forward(device, general, s, t, false), sums, tolerance);
                check_near("y after ReLU", forward(device, general, s, t, true), reference::relu(sums),
                           tolerance);
            });
        }
}

TEST_CASE("Winograd: lower layers learn from the right gradient") {
    for (const ConvShape& s : shapes()) {
        const Tensors t(s);
        const Values dx = reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy));
        with_each_tile(s, [&](Device& device) {
            check_near("dx", data_gradient(device, general, s, t, false), dx, tolerance);
            check_near("dx through ReLU", data_gradient(device, general, s, t, true),
                       reference::relu_gradient(widen(t.x), dx), tolerance);
        });
    }
}

TEST_CASE("Winograd: filters and biases learn from the right gradient") {
    for (const ConvShape& s : shapes())
        for (const bool bias : {true, false}) {
            const Tensors t(s, bias);
            const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
            const Values db = reference::conv2d_bias_gradient(s, widen(t.dy));
            with_each_tile(s, [&](Device& device) {
                const WeightGradients measured = weight_gradients(device, general, s, t, 0);
                check_near("dw", measured.dw, dw, tolerance);
                if (bias) check_near("db", measured.db, db);
            });
        }
}

TEST_CASE("Winograd: any number of threads computes the same images and data gradients to the bit") {
    for (const ConvShape& s : {same_conv(3, 10, 9, 30, 5, 5, 1, 70), same_conv(5, 4, 5, 150, 3, 3, 1, 129)}) {
        const Tensors t(s);
        const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
        std::vector<float> y, dx;
        for (const unsigned threads : {1u, 2u, 3u, 7u}) {
            INFO(text(s), ", ", threads, " threads");
            const LimitConfigs limited({.winograd_tile = 4});
            OpenOptions options = open_options();
            options.threads = threads;
            const std::unique_ptr<Device> cpu = open_device("cpu", options);
            const std::vector<float> same_y = forward(*cpu, general, s, t, true);
            const std::vector<float> same_dx = data_gradient(*cpu, general, s, t, true);
            if (threads == 1) y = same_y, dx = same_dx;
            CHECK(same_y == y);
            CHECK(same_dx == dx);
            check_near("dw", weight_gradients(*cpu, general, s, t, 0).dw, dw, tolerance);
        }
    }
}

TEST_CASE("Winograd: a NaN or an infinity passes on, so that divergence shows") {
    const ConvShape s = same_conv(2, 7, 5, 9, 3, 3, 1, 13);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        INFO("with ", bad);
        Tensors t(s);
        t.x[t.x.size() / 2] = t.dy[t.dy.size() / 2] = bad;
        const auto spoiled = [](const std::vector<float>& measured, const Values& expected) {
            for (std::size_t i = 0; i < measured.size(); ++i)
                if (!std::isfinite(expected[i]) && std::isfinite(measured[i])) return false;
            return true;
        };
        const Values x = widen(t.x), w = widen(t.w), dy = widen(t.dy);
        with_each_tile(s, [&](Device& device) {
            CHECK(spoiled(forward(device, general, s, t, false), reference::conv2d(s, x, w, widen(t.b))));
            CHECK(spoiled(data_gradient(device, general, s, t, false),
                          reference::conv2d_data_gradient(s, w, dy)));
            const WeightGradients measured = weight_gradients(device, general, s, t, 0);
            CHECK(spoiled(measured.dw, reference::conv2d_weights_gradient(s, x, dy)));
            CHECK(spoiled(measured.db, reference::conv2d_bias_gradient(s, dy)));
        });
    }
}

TEST_CASE(
    "the CPU takes Winograd's convolutions where they are cheaper, and none if products are to be exact") {
    const auto variants = [](Device& device, const ConvShape& s) {
        return std::vector<std::string>{
            variant_of(device, launch(kernels::conv2d_forward, {.shape = s})),
            variant_of(device, launch(kernels::conv2d_backward_data, {.shape = s})),
            variant_of(device, launch(kernels::conv2d_backward_weights, {.shape = s}))};
    };
    const auto all = [](const char* name) { return std::vector<std::string>(3, name); };
    OpenOptions options = open_options();
    options.exact_products = true;
    const std::unique_ptr<Device> exact = open_device("cpu", options);
    Device& cpu = device("cpu");
    const ConvShape tutorial = same_conv(128, 12, 12, 64, 5, 5, 1, 64);
    const bool has = variants(cpu, tutorial) != variants(*exact, tutorial);
    if (!has) MESSAGE("SKIPPED: this processor, or the limit on oneDNN's, has no Winograd convolutions");
    if (has) CHECK(variants(cpu, tutorial) == all("Winograd"));
    if (has) CHECK(variants(cpu, same_conv(64, 7, 7, 512, 3, 3, 1, 512)) == all("Winograd"));
    if (has) CHECK(variants(*exact, same_conv(128, 24, 24, 3, 5, 5, 1, 64)).back() == "implicit GEMM");
    const ConvShape too_few_channels = same_conv(128, 32, 32, 8, 3, 3, 1, 8);
    const ConvShape strided = same_conv(128, 32, 32, 64, 3, 3, 2, 128);
    // Matrices leave out the padding, so that they win at 2x2 too, where the processor has them.
    const bool matrices =
        variants(*exact, same_conv(32, 2, 2, 512, 3, 3, 1, 512)) == all("products of matrices");
    const std::uint32_t small = matrices ? 2 : 1;
    const ConvShape too_small = same_conv(32, small, small, 512, 3, 3, 1, 512);
    for (const ConvShape& s : {too_few_channels, strided, too_small})
        CHECK(variants(cpu, s) == variants(*exact, s));
    for (const ConvShape& s : {tutorial, too_few_channels, strided, too_small}) {
        const auto chosen = variants(*exact, s);
        CHECK(std::ranges::count(chosen, "Winograd") == 0);
    }
}

} // namespace towers
