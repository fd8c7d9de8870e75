// Winograd's convolutions on GPUs and on drivers that stand in for them: only measuring chooses them.
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"
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

constexpr DeviceFacts card{.busy_groups = 264, .subgroup_size = 32, .quads = true, .shared_memory = 48 << 10};

const std::vector<ConvShape>& shapes() {
    static const std::vector<ConvShape> all{
        same_conv(1, 1, 1, 4, 3, 3, 1, 4), // all but one pixel are padding
        same_conv(3, 5, 7, 12, 3, 3, 1, 20),
        same_conv(2, 3, 2, 8, 5, 5, 1, 4),
        valid_conv(1, 11, 12, 8, 5, 5, 1, 16),
        padded_conv(2, 5, 6, 4, {{5, 5}, {1, 1}}, {4, 1, 0, 3}, 12), // some windows see only padding
        padded_conv(1, 4, 5, 16, {{3, 3}, {1, 1}}, {4, 3, 3, 5}, 8), // more padding than the window reaches
        same_conv(2, 12, 12, 64, 5, 5, 1, 68),                       // fills tiles of the product
    };
    return all;
}

Launch forward_of(const ConvShape& s) { return launch(kernels::conv2d_forward, {.shape = s, .splits = 1}); }
Launch weights_of(const ConvShape& s) {
    return launch(kernels::conv2d_backward_weights, {.shape = s, .bias = 1, .splits = 1});
}

} // namespace

TEST_CASE("Winograd on GPUs: every pass of a convolution is the convolution, with each tile") {
    on_every_card([](Choosing& on) {
        for (const ConvShape& s : shapes())
            CHECK(check_every_candidate(on, s, true, winograd_name) >= 18); // 3 passes, 2 tiles x 3
        CHECK(check_every_candidate(on, shapes()[1], false, winograd_name) >= 18);
    });
}

TEST_CASE("Winograd on GPUs: a NaN or an infinity passes on, so that divergence shows") {
    const ConvShape s = same_conv(2, 7, 5, 8, 3, 3, 1, 12);
    const auto spoiled = [](const std::vector<float>& measured, const Values& expected) {
        for (std::size_t i = 0; i < measured.size(); ++i)
            if (!std::isfinite(expected[i]) && std::isfinite(measured[i])) return false;
        return true;
    };
    on_every_card([&](Choosing& on) {
        Device& device = *on.device;
        for (const float bad :
             {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            INFO("with ", bad);
            Tensors t(s);
            t.x[t.x.size() / 2] = t.dy[t.dy.size() / 2] = bad;
            const Values x = widen(t.x), w = widen(t.w), dy = widen(t.dy);
            on.with_each(
                launch(kernels::conv2d_forward, {.shape = s, .bias = 1, .splits = 1}),
                [&](double) {
                    CHECK(spoiled(forward(device, general, s, t, false),
                                  reference::conv2d(s, x, w, widen(t.b))));
                },
                winograd_name);
            on.with_each(
                launch(kernels::conv2d_backward_data, {.shape = s, .splits = 1}),
                [&](double) {
                    CHECK(spoiled(data_gradient(device, general, s, t, false),
                                  reference::conv2d_data_gradient(s, w, dy)));
                },
                winograd_name);
            on.with_each(
                weights_of(s),
                [&](double) {
                    const WeightGradients measured = weight_gradients(device, general, s, t, 0);
                    CHECK(spoiled(measured.dw, reference::conv2d_weights_gradient(s, x, dy)));
                    CHECK(spoiled(measured.db, reference::conv2d_bias_gradient(s, dy)));
                },
                winograd_name);
        }
    });
}

TEST_CASE("Winograd on GPUs: a gradient in parts is whole, and its choice gives the same bits again") {
    const ConvShape s = same_conv(3, 10, 9, 20, 5, 5, 1, 72);
    const Tensors t(s);
    const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
    const LimitConfigs split({.splits = 3}); // with tiles of 4x4 the last one has nothing to add up
    on_every_card([&](Choosing& on) {
        Choosing again(on.device->info().id,
                       on.device->info().kind == DeviceKind::software ? Sources::cards : Sources::best);
        on.with_each(
            weights_of(s),
            [&](double tolerance) {
                again.choices = on.choices;
                CHECK(again.choices.begin()->second.config.splits == 3);
                CHECK(variant_of(*again.device, weights_of(s)) == winograd_name);
                const WeightGradients first = weight_gradients(*on.device, general, s, t, 3),
                                      second = weight_gradients(*again.device, general, s, t, 3);
                check_near("dw", first.dw, dw, tolerance);
                CHECK(first.dw == second.dw);
                CHECK(first.db == second.db);
            },
            winograd_name);
    });
}

TEST_CASE("Winograd on GPUs is offered for measuring, where it fits, and never taken by estimate") {
    const ConvShape tutorial = same_conv(128, 12, 12, 64, 5, 5, 1, 64);
    for (const Launch& each : {forward_of(tutorial), weights_of(tutorial)}) {
        CHECK_FALSE(winograd_config(each, card));
        const std::vector<LaunchConfig> configs = winograd_configs(each, card);
        CHECK(configs.size() == 6);
        const auto best = std::ranges::min_element(configs, {}, &LaunchConfig::cost);
        CHECK(best->winograd_tile == 4);
        CHECK(best->cost < 0.6 * quads_config(each, card)->cost);
    }
    const auto none = [](const ConvShape& s, const DeviceFacts& facts = card) {
        return winograd_configs(forward_of(s), facts).empty();
    };
    CHECK_FALSE(none(same_conv(128, 16, 16, 32, 3, 3, 1, 32)));
    CHECK(none(same_conv(128, 16, 16, 32, 3, 3, 2, 32)));
    CHECK(none(same_conv(128, 16, 16, 32, 7, 7, 1, 32)));
    CHECK(none(same_conv(128, 16, 16, 32, {{3, 5}, {1, 1}}, 32)));
    CHECK(none(same_conv(128, 16, 16, 32, {{3, 3}, {1, 1}}, 32, 2)));
    CHECK(none(same_conv(128, 16, 16, 30, 3, 3, 1, 32)));
    CHECK(none(reference::dilated_conv(1, 9, 9, 16, {{3, 3}, {1, 1}}, {2, 2}, {2, 2, 2, 2}, 16)));
    CHECK(none(same_conv(8192, 64, 64, 64, 5, 5, 1, 64))); // more points than kernels can count
    CHECK(winograd_configs(launch(kernels::sgd, {.quads = 1}), card).empty());
    DeviceFacts other = card;
    other.exact_products = true;
    CHECK(none(tutorial, other));
    other = card;
    other.software = true;
    CHECK(none(tutorial, other));
    other = card;
    other.quads = false;
    CHECK(none(tutorial, other));
}

TEST_CASE("Winograd on GPUs needs scratch memory for the points of all tiles, and no more") {
    const ConvShape s = same_conv(128, 12, 12, 64, 5, 5, 1, 64);
    constexpr std::size_t blocks = 128 * 9, points = 64;
    constexpr std::size_t images = blocks * points * 64 * 4, weights = points * 64 * 64 * 4;
    const auto bytes = [&](const Launch& launch, unsigned splits) {
        const StagedLaunch staged =
            winograd_stages(launch, {.tile = quad_tiles[0], .splits = splits, .winograd_tile = 4}, card, 0);
        CHECK(staged.stages.size() == (splits == 1 ? 3 : 4));
        return staged.scratch_bytes;
    };
    CHECK(bytes(forward_of(s), 1) == 2 * images + weights);
    CHECK(bytes(launch(kernels::conv2d_backward_data, {.shape = s, .splits = 1}), 1) == 2 * images + weights);
    CHECK(bytes(launch(kernels::conv2d_backward_weights, {.shape = s, .splits = 1}), 1) ==
          2 * images + weights);
    CHECK(bytes(launch(kernels::conv2d_backward_weights, {.shape = s, .splits = 1}), 5) ==
          2 * images + 6 * weights);
    CHECK(bytes(weights_of(s), 1) == 2 * images + weights + 12 * 12 * 64 * 4); // the bias's gradient
}

TEST_CASE("a device has Winograd's convolutions for measuring only if it is a card and products need not be "
          "exact") {
    const Launch each = forward_of(same_conv(2, 8, 8, 8, 3, 3, 1, 8));
    const auto has = [&](const Device& device) {
        return std::ranges::any_of(device.candidates(each), [](const Candidate& candidate) {
            return candidate.variant == winograd_name;
        });
    };
    on_every_card([&](Choosing& on) {
        CHECK(has(*on.device));
        CHECK(variant_of(*on.device, each) != winograd_name);
        const DeviceInfo& info = on.device->info();
        if (info.kind == DeviceKind::software) CHECK_FALSE(has(device(info.id)));
        OpenOptions options = open_options();
        options.sources = info.kind == DeviceKind::software ? Sources::cards : Sources::best;
        options.exact_products = true;
        CHECK_FALSE(has(*open_device(info.id, options)));
    });
}

} // namespace towers
