// Winograd's convolutions on GPUs and on drivers that stand in for them.
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "backends/launch/stages.h"
#include "backends/launch/winograd.h"
#include "backends/upload.h"
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
        same_conv(2, 12, 12, 64, 3, 3, 1, 68),                       // fills tiles of the product
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
                [&](const Candidate&) {
                    CHECK(spoiled(forward(device, general, s, t, false),
                                  reference::conv2d(s, x, w, widen(t.b))));
                },
                winograd_name);
            on.with_each(
                launch(kernels::conv2d_backward_data, {.shape = s, .splits = 1}),
                [&](const Candidate&) {
                    CHECK(spoiled(data_gradient(device, general, s, t, false),
                                  reference::conv2d_data_gradient(s, w, dy)));
                },
                winograd_name);
            on.with_each(
                weights_of(s),
                [&](const Candidate&) {
                    const WeightGradients measured = weight_gradients(device, general, s, t, 0);
                    CHECK(spoiled(measured.dw, reference::conv2d_weights_gradient(s, x, dy)));
                    CHECK(spoiled(measured.db, reference::conv2d_bias_gradient(s, dy)));
                },
                winograd_name);
        }
    });
}

TEST_CASE("Winograd on GPUs: a gradient in parts is whole, and its choice gives the same bits again") {
    const ConvShape s = same_conv(3, 10, 9, 20, 3, 3, 1, 72);
    const Tensors t(s);
    const Values dw = reference::conv2d_weights_gradient(s, widen(t.x), widen(t.dy));
    const LimitConfigs split({.splits = 3}); // with tiles of 4x4 the last one has nothing to add up
    on_every_card([&](Choosing& on) {
        Choosing again(on.device->info().id,
                       on.device->info().kind == DeviceKind::software ? Sources::cards : Sources::best);
        on.with_each(
            weights_of(s),
            [&](const Candidate& way) {
                const double tolerance = tolerance_of(way);
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

TEST_CASE("Winograd on GPUs is there where it fits, and taken where the estimate is lower") {
    const ConvShape tutorial = same_conv(128, 12, 12, 64, 5, 5, 1, 64);
    for (const Launch& each : {forward_of(tutorial), weights_of(tutorial)}) {
        REQUIRE(winograd_config(each, card));
        CHECK(winograd_config(each, card)->winograd_tile == 4);
        DeviceFacts exact = card;
        exact.exact_products = true;
        CHECK_FALSE(winograd_config(each, exact));
        const std::vector<LaunchConfig> configs = winograd_configs(each, card);
        CHECK(configs.size() == 6);
        const auto best = std::ranges::min_element(configs, {}, &LaunchConfig::cost);
        CHECK(best->winograd_tile == 4);
        CHECK(best->cost < 0.6 * quads_config(each, card)->cost);
    }
    for (const auto& [shape, taken] :
         {std::pair{same_conv(64, 56, 56, 64, 3, 3, 1, 64), true},
          std::pair{same_conv(64, 14, 14, 256, 3, 3, 1, 256), true},
          std::pair{same_conv(64, 7, 7, 512, 3, 3, 1, 512), true},
          std::pair{same_conv(1, 8, 8, 64, 3, 3, 1, 64), false}, // launches take longer
          std::pair{same_conv(64, 56, 56, 4, 3, 3, 1, 4), false}}) {
        CAPTURE(shape.in_channels);
        CAPTURE(shape.in_height);
        CHECK(winograd_config(forward_of(shape), card).has_value() == taken);
        constexpr ConfigLimits whatever_it_takes{.winograd_tile = 2};
        DeviceFacts asked = card;
        asked.limits = &whatever_it_takes;
        CHECK(winograd_config(forward_of(shape), asked)->winograd_tile == 2);
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
    other.little_scratch = true;
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

TEST_CASE("a recording works in the scratch memory that it is given and its own otherwise") {
    const LimitConfigs tile({.winograd_tile = 4});
    const ConvShape s = same_conv(2, 9, 6, 8, 3, 3, 1, 12);
    const Tensors t(s);
    on_every_card([&](Choosing& on) {
        Device& device = *on.device;
        const auto with = [&](const std::vector<float>& values) {
            Buffer buffer = device.allocate(values.size() * sizeof(float), Memory::device);
            upload(device, buffer, std::as_bytes(std::span(values)));
            return buffer;
        };
        const auto read = [&](const Buffer& buffer) {
            std::vector<float> values(buffer.bytes() / sizeof(float));
            download(device, buffer, std::as_writable_bytes(std::span(values)));
            return values;
        };
        const Buffer x = with(t.x), w = with(t.w);
        const auto y_at = [&](const Buffer& y) {
            Conv2dForwardParams p{.shape = s, .splits = 1};
            p.x.at = reinterpret_cast<const float*>(x.address());
            p.w.at = reinterpret_cast<const float*>(w.address());
            p.y.at = reinterpret_cast<float*>(y.address());
            return launch(kernels::conv2d_forward, p);
        };
        const std::size_t bytes = device.scratch_bytes(forward_of(s)),
                          floats = OUT_PIXELS(s) * s.out_channels;
        CHECK(bytes > 0);
        const Buffer enough = device.allocate(bytes, Memory::device),
                     little = device.allocate(bytes - 256, Memory::device);
        const auto is_used = [&](const Buffer& scratch) {
            const std::vector<float> now = read(scratch);
            return std::ranges::any_of(now, [](float each) { return each != 0; });
        };
        std::vector<Buffer> results;
        std::vector<Recording> recordings;
        for (const Buffer* scratch : {&enough, &enough, &little, static_cast<const Buffer*>(nullptr)}) {
            results.push_back(device.allocate(floats * sizeof(float), Memory::device));
            const std::vector<Command> commands{y_at(results.back())};
            recordings.push_back(device.record(commands, scratch));
        }
        Ticket last = 0;
        for (int i = 0; i < 3; ++i) // they take turns
            for (const Recording& recording : recordings) last = device.submit(recording);
        device.wait(last);
        CHECK(is_used(enough));
        CHECK_FALSE(is_used(little));
        const Values expected = reference::conv2d(s, widen(t.x), widen(t.w), Values(s.out_channels));
        for (const Buffer& y : results) check_near("y", read(y), expected, winograd_tolerance);
        const Buffer others = test::device("cpu").allocate(256, Memory::device);
        CHECK_THROWS_AS(device.record({}, &others), std::logic_error);
    });
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
