#include "tests/conformance/choosing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace towers {
namespace {

using namespace test;
using reference::dilated_conv;
using reference::padded_conv;
using reference::same_conv;
using reference::valid_conv;
using reference::Values;

const std::vector<ConvShape>& shapes() {
    static const std::vector<ConvShape> all{
        same_conv(1, 1, 1, 1, 1, 1, 1, 1),
        same_conv(3, 1, 1, 13, 1, 1, 1, 127), // dense layers
        same_conv(1, 1, 1, 127, 1, 1, 1, 13),
        same_conv(67, 1, 1, 64, 1, 1, 1, 3), //
        same_conv(3, 5, 7, 3, 3, 3, 1, 13),
        same_conv(1, 5, 7, 13, 5, 5, 2, 3),
        same_conv(3, 12, 12, 3, 5, 5, 1, 64),
        same_conv(1, 5, 4, 64, 5, 5, 1, 64), // sums as long as in the tutorial
        same_conv(1, 5, 7, 127, 1, 1, 2, 1),
        same_conv(3, 1, 1, 3, 5, 5, 1, 13), // kernel larger than the image
        same_conv(3, 12, 12, 1, 3, 3, 2, 13),
        same_conv(1, 7, 5, 13, 3, 3, 2, 127),
        same_conv(1, 5, 7, 3, 1, 5, 1, 13),
        same_conv(3, 5, 7, 4, 3, 1, 2, 8),
        valid_conv(3, 12, 12, 3, 5, 5, 1, 13),
        valid_conv(1, 12, 12, 3, 5, 5, 2, 13), // the last row is never read
        same_conv(1, 9, 9, 8, {{1, 7}, {1, 1}}, 16),
        same_conv(3, 9, 8, 16, {{7, 1}, {1, 1}}, 8),
        same_conv(1, 12, 12, 8, {{3, 3}, {2, 2}}, 16),
        same_conv(1, 11, 12, 8, {{3, 5}, {2, 1}}, 7),
        valid_conv(3, 9, 12, 5, {{2, 3}, {1, 3}}, 8),
        valid_conv(1, 13, 12, 16, {{1, 1}, {3, 2}}, 8),                // two rows are never read
        padded_conv(1, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 16), // as PyTorch places them
        padded_conv(3, 6, 5, 4, {{3, 2}, {1, 2}}, {0, 2, 1, 0}, 8),
        padded_conv(1, 5, 6, 3, {{2, 2}, {1, 1}}, {2, 1, 0, 3}, 5),   // some windows see only padding
        padded_conv(3, 6, 5, 16, {{3, 2}, {1, 2}}, {0, 2, 4, 0}, 16), // some windows see only padding
        same_conv(3, 5, 7, 16, {{3, 3}, {1, 1}}, 32, 2),
        same_conv(1, 9, 9, 12, {{3, 3}, {2, 1}}, 18, 6),
        same_conv(3, 1, 1, 8, {{1, 1}, {1, 1}}, 6, 2),
        padded_conv(1, 6, 7, 6, {{3, 2}, {2, 1}}, {0, 2, 1, 0}, 130, 2),
        same_conv(1, 5, 7, 13, {{3, 3}, {1, 1}}, 26, 13), // two filters a channel
        same_conv(1, 5, 7, 16, {{3, 3}, {1, 1}}, 16, 16),
        dilated_conv(3, 9, 8, 5, {{3, 3}, {1, 1}}, {2, 2}, {2, 2, 2, 2}, 13),
        dilated_conv(1, 9, 9, 16, {{3, 3}, {1, 1}}, {4, 4}, {4, 4, 4, 4}, 64),
        dilated_conv(1, 11, 10, 8, {{3, 2}, {2, 1}}, {2, 3}, {1, 3, 0, 2}, 7),
        dilated_conv(3, 12, 13, 3, {{1, 3}, {1, 2}}, {5, 4}, {0, 0, 0, 0},
                     16),                                                    // the last column is never read
        dilated_conv(1, 4, 5, 8, {{3, 3}, {1, 1}}, {6, 6}, {6, 6, 6, 6}, 8), // one tap of nine sees anything
        dilated_conv(3, 9, 7, 12, {{3, 2}, {1, 2}}, {2, 3}, {2, 1, 0, 3}, 18, 6),
        // Gradients of images by phases
        padded_conv(2, 12, 14, 64, {{3, 3}, {2, 2}}, {1, 1, 1, 1}, 64),
        same_conv(2, 13, 9, 8, {{3, 3}, {2, 2}}, 16),
        valid_conv(3, 7, 6, 8, {{1, 1}, {2, 2}}, 12),
        padded_conv(1, 10, 11, 8, {{5, 2}, {3, 4}}, {2, 1, 1, 0}, 20),
        padded_conv(3, 2, 3, 8, {{3, 3}, {5, 4}}, {2, 2, 1, 1}, 8), // strides beyond the image
        same_conv(1, 9, 8, 24, {{3, 3}, {2, 3}}, 16, 2),
        dilated_conv(2, 12, 11, 8, {{3, 3}, {2, 2}}, {2, 2}, {2, 2, 2, 2}, 12), // odd places see nothing
        dilated_conv(1, 25, 17, 4, {{4, 3}, {4, 6}}, {6, 4}, {6, 5, 7, 0}, 8),
        // Gradients of images by phases
        padded_conv(2, 12, 14, 64, {{3, 3}, {2, 2}}, {1, 1, 1, 1}, 64),
        same_conv(2, 13, 9, 8, {{3, 3}, {2, 2}}, 16),
        valid_conv(3, 7, 6, 8, {{1, 1}, {2, 2}}, 12),
        same_conv(1, 9, 8, 24, {{3, 3}, {2, 3}}, 16, 2),
        padded_conv(3, 2, 3, 8, {{3, 3}, {5, 4}}, {2, 2, 1, 1}, 8),             // strides beyond the image
        dilated_conv(2, 12, 11, 8, {{3, 3}, {2, 2}}, {2, 2}, {2, 2, 2, 2}, 12), // every other pixel is unseen
        // Few pixels and many weights
        valid_conv(1, 5, 6, 130, {{1, 1}, {3, 3}}, 129),                // two rows and columns are never read
        padded_conv(2, 3, 1, 128, {{3, 1}, {1, 1}}, {0, 1, 0, 0}, 131), // zeros below only
        padded_conv(1, 2, 1, 128, {{1, 1}, {4, 4}}, {2, 2, 2, 2}, 130), // all windows see only padding
        same_conv(2, 1, 2, 128, 1, 1, 1, 193),
        // So much that test devices take the largest tiles of the sources by quads
        same_conv(4, 16, 16, 64, 1, 1, 1, 64),
        same_conv(1, 6, 6, 112, 3, 3, 1, 64),
    };
    return all;
}

/// Software drivers take long for these, which the CPU's own methods need.
const std::vector<ConvShape>& shapes_for_cpu() {
    static const std::vector<ConvShape> all{
        same_conv(1, 12, 12, 64, 5, 5, 1, 64), // as in the tutorial
        // Few channels, several images: implicit products of matrices
        padded_conv(4, 11, 10, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 48),
        valid_conv(5, 12, 9, 2, {{3, 3}, {3, 2}}, 32),
        // Few pixels and many weights: products of matrices
        dilated_conv(1, 3, 2, 128, {{3, 2}, {1, 1}}, {2, 1}, {2, 2, 1, 0}, 130),
        dilated_conv(2, 5, 5, 128, {{2, 2}, {2, 2}}, {3, 4}, {1, 0, 0, 1}, 131),
        same_conv(3, 2, 2, 129, 3, 3, 1, 131), same_conv(1, 5, 3, 133, 3, 3, 2, 140),
        same_conv(2, 1, 1, 128, 3, 3, 1, 129),                          // one tap of nine sees anything
        valid_conv(1, 3, 3, 160, 2, 2, 1, 131),                         // every tap sees all outputs
        padded_conv(1, 3, 2, 128, {{2, 3}, {2, 1}}, {3, 1, 1, 1}, 130), // some windows see only padding
    };
    return all;
}

/// Runs a check on the CPU alone, where EverySource runs it on every device.
struct OnCpu {
    template<class Function>
    void run(const Launch&, Function function) {
        function(device("cpu"));
    }
};

template<class Sources>
void check_forward(Sources& sources, const Kernels& kernels, const ConvShape& s) {
    for (const bool bias : {true, false}) {
        INFO(text(s), bias ? "" : ", no bias");
        const Tensors t(s, bias);
        const Values sums = reference::conv2d(s, widen(t.x), widen(t.w), widen(t.b));
        sources.run(forward_of(kernels, s, bias), [&](Device& device) {
            check_near("y", forward(device, kernels, s, t, false, bias ? 0 : 3), sums);
            for (const unsigned splits : {1u, 3u}) {
                if (splits == 3 && !bias) continue;
                INFO(splits, " splits");
                check_near("y after ReLU", forward(device, kernels, s, t, true, splits),
                           reference::relu(sums));
            }
        });
    }
}

template<class Sources>
void check_data_gradient(Sources& sources, const Kernels& kernels, const ConvShape& s) {
    INFO(text(s));
    const Tensors t(s);
    const Values dx = reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy));
    sources.run(data_gradient_of(kernels, s), [&](Device& device) {
        check_near("dx", data_gradient(device, kernels, s, t, false), dx);
        for (const unsigned splits : {1u, 3u}) {
            INFO(splits, " splits");
            check_near("dx through ReLU", data_gradient(device, kernels, s, t, true, splits),
                       reference::relu_gradient(widen(t.x), dx));
        }
    });
}

template<class Sources>
void check_weight_gradients(Sources& sources, const Kernels& kernels, const ConvShape& s) {
    for (const bool bias : {true, false}) {
        INFO(text(s), bias ? "" : ", no bias");
        const Tensors t(s, bias);
        const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
        const Values db = reference::conv2d_bias_gradient(s, widen(t.dy));
        sources.run(weight_gradients_of(kernels, s, bias), [&](Device& device) {
            for (const unsigned splits : {0u, 1u, 3u}) {
                if (splits == 1 && !bias) continue;
                INFO(splits, " splits");
                const WeightGradients measured = weight_gradients(device, kernels, s, t, splits);
                check_near("dw", measured.dw, dw);
                if (bias) check_near("db", measured.db, db);
            }
        });
    }
}

const std::vector<ConvShape>& depthwise_shapes() {
    static const std::vector<ConvShape> all{
        same_conv(1, 1, 1, 1, {{1, 1}, {1, 1}}, 1, 1),
        same_conv(3, 5, 7, 13, {{3, 3}, {1, 1}}, 13, 13),
        same_conv(1, 12, 12, 32, {{3, 3}, {2, 2}}, 32, 32),
        same_conv(1, 9, 9, 127, {{5, 5}, {1, 1}}, 127, 127),
        same_conv(1, 9, 8, 24, {{1, 7}, {1, 2}}, 24, 24),
        valid_conv(3, 13, 12, 16, {{3, 2}, {3, 1}}, 16, 16), // the last row is never read
        padded_conv(1, 11, 10, 8, {{5, 5}, {2, 2}}, {2, 2, 2, 2}, 8, 8),
        padded_conv(3, 6, 5, 4, {{3, 2}, {1, 2}}, {0, 2, 1, 0}, 4, 4),
        same_conv(1, 1, 1, 16, {{3, 3}, {1, 1}}, 16, 16),
        dilated_conv(3, 9, 8, 13, {{3, 3}, {1, 1}}, {2, 2}, {2, 2, 2, 2}, 13, 13),
        dilated_conv(1, 12, 11, 32, {{3, 5}, {2, 1}}, {3, 2}, {1, 3, 0, 4}, 32, 32),
        dilated_conv(1, 4, 5, 16, {{3, 3}, {1, 1}}, {6, 6}, {6, 6, 6, 6}, 16, 16),
    };
    return all;
}

} // namespace

KERNEL_TEST(conv2d_forward, "the network sees its images through the right filters") {
    EverySource sources;
    const LimitConfigs no_winograd({.winograd_tile = 1}); // which has bounds and tests of its own
    for (const ConvShape& s : shapes()) check_forward(sources, general, s);
    OnCpu cpu;
    for (const ConvShape& s : shapes_for_cpu()) check_forward(cpu, general, s);
}

KERNEL_TEST(conv2d_backward_data, "lower layers learn from the right gradient") {
    EverySource sources;
    const LimitConfigs no_winograd({.winograd_tile = 1}); // which has bounds and tests of its own
    for (const ConvShape& s : shapes()) check_data_gradient(sources, general, s);
    OnCpu cpu;
    for (const ConvShape& s : shapes_for_cpu()) check_data_gradient(cpu, general, s);
}

KERNEL_TEST(conv2d_backward_weights,
            "filters and biases learn from the right gradient, however it is split") {
    EverySource sources;
    const LimitConfigs no_winograd({.winograd_tile = 1}); // which has bounds and tests of its own
    for (const ConvShape& s : shapes()) check_weight_gradients(sources, general, s);
    OnCpu cpu;
    for (const ConvShape& s : shapes_for_cpu()) check_weight_gradients(cpu, general, s);
}

KERNEL_TEST(depthwise_conv2d_forward, "a channel passes through its own filter and no other") {
    EverySource sources;
    for (const ConvShape& s : depthwise_shapes()) check_forward(sources, depthwise, s);
}

KERNEL_TEST(depthwise_conv2d_backward_data,
            "layers below a depthwise convolution learn from the right gradient") {
    EverySource sources;
    for (const ConvShape& s : depthwise_shapes()) check_data_gradient(sources, depthwise, s);
}

KERNEL_TEST(depthwise_conv2d_backward_weights,
            "each channel's filter learns from the right gradient, however it is split") {
    EverySource sources;
    for (const ConvShape& s : depthwise_shapes()) check_weight_gradients(sources, depthwise, s);
}

TEST_CASE("a small convolution: all that other tests of drivers need to run") {
    EverySource sources;
    const ConvShape s = same_conv(2, 5, 7, 8, 3, 3, 1, 12);
    check_forward(sources, general, s);
    check_data_gradient(sources, general, s);
    check_weight_gradients(sources, general, s);
}

TEST_CASE("a NaN or an infinity passes through a convolution and its ReLU, so that divergence shows") {
    EverySource sources;
    const auto check = [&](const Kernels& kernels, const ConvShape& s) {
        INFO(text(s));
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            INFO("with ", bad);
            Tensors t(s);
            t.x[t.x.size() / 2] = bad;
            const Values sums = reference::conv2d(s, widen(t.x), widen(t.w), widen(t.b));
            sources.run(forward_of(kernels, s, true), [&](Device& device) {
                check_near("y", forward(device, kernels, s, t, false), sums);
                check_near("y after ReLU", forward(device, kernels, s, t, true), reference::relu(sums));
            });
        }
        Tensors t(s);
        t.dy[t.dy.size() / 2] = std::numeric_limits<float>::quiet_NaN();
        const Values dx = reference::conv2d_data_gradient(s, widen(t.w), widen(t.dy));
        sources.run(data_gradient_of(kernels, s), [&](Device& device) {
            check_near("dx", data_gradient(device, kernels, s, t, false), dx);
        });
        sources.run(weight_gradients_of(kernels, s, true), [&](Device& device) {
            const WeightGradients measured = weight_gradients(device, kernels, s, t, 0);
            CHECK(std::isnan(measured.db[t.dy.size() / 2 % s.out_channels]));
        });
    };
    check(general, same_conv(3, 5, 7, 3, 3, 3, 1, 13));
    check(general, same_conv(3, 1, 1, 13, 1, 1, 1, 127));
    check(general, same_conv(3, 5, 7, 6, {{3, 3}, {1, 1}}, 4, 2));
    check(general, same_conv(3, 2, 2, 129, 3, 3, 1, 131));
    check(general, dilated_conv(3, 9, 8, 5, {{3, 3}, {1, 1}}, {2, 2}, {2, 2, 2, 2}, 13));
    check(depthwise, same_conv(3, 5, 7, 16, {{3, 3}, {1, 1}}, 16, 16));
}

TEST_CASE("the CPU's products of many pixels and weights add up over all blocks and threads") {
    Device& cpu = device("cpu");
    for (const ConvShape& s :
         {same_conv(43, 4, 3, 224, 3, 3, 1, 277), same_conv(3, 1, 1, 1031, 1, 1, 1, 1025)}) {
        INFO(text(s));
        const Tensors t(s);
        const Values x = widen(t.x), w = widen(t.w), dy = widen(t.dy);
        check_near("y", forward(cpu, general, s, t, false), reference::conv2d(s, x, w, widen(t.b)));
        check_near("dx", data_gradient(cpu, general, s, t, false), reference::conv2d_data_gradient(s, w, dy));
        const WeightGradients measured = weight_gradients(cpu, general, s, t, 0);
        check_near("dw", measured.dw, reference::conv2d_weights_gradient(s, x, dy));
        check_near("db", measured.db, reference::conv2d_bias_gradient(s, dy));
    }
}

TEST_CASE("every way in which the CPU can run a convolution computes the convolution, whatever is chosen") {
    Choosing on("cpu", Sources::best);
    for (const ConvShape& s : shapes()) check_every_candidate(on, s);
    for (const ConvShape& s : shapes_for_cpu()) check_every_candidate(on, s);
}

TEST_CASE("a choice that a device does not have counts for nothing") {
    on_every_device([](Device& device) {
        const Launch forward = launch(kernels::conv2d_forward, {.shape = same_conv(1, 8, 8, 4, 3, 3, 1, 4)});
        Choosing on(device.info().id, Sources::best);
        const std::string estimated = variant_of(*on.device, forward);
        for (const auto& [variant, config] :
             {Chosen{"shared text", {.tile = Tile{3, 5, 7}}}, {"sorcery", {}}}) {
            on.choices = {{key_of(forward), {variant, config}}};
            CHECK(variant_of(*on.device, forward) == estimated);
            on.device->record(std::vector<Command>{forward});
        }
    });
}

TEST_CASE(
    "what was chosen for a launch serves its like with a batch that is at most twice or half as large") {
    const auto forward = [](unsigned batch, unsigned channels = 32) {
        return launch(kernels::conv2d_forward, {.shape = same_conv(batch, 8, 8, channels, 3, 3, 1, 64)});
    };
    const auto check = [&](Choosing& on) {
        const auto used = [&](const Launch& launch) {
            for (const Candidate& each : on.device->candidates(launch))
                if (each.used) return each;
            return Candidate{};
        };
        for (const Candidate& candidate : on.device->candidates(forward(16))) {
            INFO(to_string(candidate.variant, candidate.config));
            on.choices.clear();
            const Candidate far = used(forward(33)), other = used(forward(16, 36));
            on.choices[key_of(forward(16))] = {std::string(candidate.variant), candidate.config};
            for (const unsigned batch : {8u, 15u, 17u, 32u}) {
                const Candidate near = used(forward(batch));
                CHECK(near.variant == candidate.variant);
                CHECK(near.config.winograd_tile == candidate.config.winograd_tile);
                CHECK(near.config.tile.has_value() == candidate.config.tile.has_value());
                if (near.config.tile) CHECK(near.config.tile->width == candidate.config.tile->width);
            }
            CHECK(used(forward(33)).variant == far.variant);
            CHECK(alike(used(forward(33)).config, far.config));
            CHECK(used(forward(16, 36)).variant == other.variant);
            // The nearest one serves.
            on.choices[key_of(forward(30))] = {std::string(far.variant), far.config};
            CHECK(used(forward(31)).variant == far.variant);
            CHECK(used(forward(17)).variant == candidate.variant);
        }
    };
    Choosing cpu("cpu", Sources::best);
    check(cpu);
    on_every_card(check);
}

TEST_CASE("the reference convolution gradients are the gradients of the convolution") {
    for (const ConvShape& s : {same_conv(2, 5, 4, 3, 3, 3, 1, 2), same_conv(2, 5, 4, 2, 5, 3, 2, 3),
                               same_conv(3, 1, 1, 5, 1, 1, 1, 4), valid_conv(1, 6, 6, 2, 3, 3, 2, 2),
                               padded_conv(1, 6, 5, 4, {{3, 2}, {1, 2}}, {0, 2, 1, 0}, 6, 2),
                               dilated_conv(2, 6, 7, 2, {{3, 2}, {1, 2}}, {2, 3}, {2, 1, 0, 3}, 3),
                               dilated_conv(1, 6, 5, 4, {{2, 3}, {2, 1}}, {3, 1}, {1, 0, 1, 1}, 4, 4)}) {
        INFO(text(s));
        const Tensors t(s);
        const Values x = widen(t.x), w = widen(t.w), b = widen(t.b), dy = widen(t.dy);
        using namespace reference;
        const auto by_x = [&](const Values& v) { return dot(conv2d(s, v, w, b), dy); };
        const auto by_w = [&](const Values& v) { return dot(conv2d(s, x, v, b), dy); };
        const auto by_b = [&](const Values& v) { return dot(conv2d(s, x, w, v), dy); };
        CHECK(relative_error(conv2d_data_gradient(s, w, dy), finite_differences(x, by_x)) < 1e-8);
        CHECK(relative_error(conv2d_weights_gradient(s, x, dy), finite_differences(w, by_w)) < 1e-8);
        CHECK(relative_error(conv2d_bias_gradient(s, dy), finite_differences(b, by_b)) < 1e-8);
    }
}

} // namespace towers
