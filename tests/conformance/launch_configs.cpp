// How launches are divided: a wide card must not idle, and parts of a sum must not overwrite each other.
#include "backends/launch/lowering.h"
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"

#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

namespace towers {
namespace {

using namespace test;
using reference::same_conv;

constexpr DeviceFacts card{.busy_groups = 256, .subgroup_size = 32};

Launch weights_gradient(const ConvShape& s, Kernel kernel = Kernel::conv2d_backward_weights) {
    return {kernel, ParameterBlock::of(Conv2dBackwardWeightsParams{.shape = s, .bias = 1, .splits = 1})};
}

unsigned splits(const Launch& launch) { return shared_source_config(launch, card)->splits; }
unsigned groups_of(const Launch& launch) { return shared_source_config(launch, card)->groups.x; }
Launch update(uint quads) { return launch(kernels::sgd, {.quads = quads}); }
Launch losses(uint rows) { return launch(kernels::softmax_cross_entropy, {.rows = rows}); }
Launch images(uint count) { return launch(kernels::distort_images, {.count = count}); }

} // namespace

TEST_CASE("no sum takes more pixels than the loops of a driver on processors may") {
    const DeviceFacts driver{.busy_groups = 8, .subgroup_size = 8, .software = true, .ends_loops = true};
    constexpr double most = 16384;
    // The first gradient of VGG-16 with more than a few weights was off by 61 % on llvmpipe.
    for (const ConvShape& s :
         {same_conv(16, 224, 224, 64, 3, 3, 1, 64), same_conv(128, 56, 56, 256, 1, 1, 2, 512)}) {
        const double pixels = double(s.batch) * s.out_height * s.out_width;
        const std::vector<LaunchConfig> configs = shared_source_configs(weights_gradient(s), driver);
        CHECK(configs.size() > 1);
        for (const LaunchConfig& config : configs) CHECK(pixels / config.splits <= most);
        CHECK(pixels / splits_of(weights_gradient(s), driver) <= most);
    }
    const ConvShape s = same_conv(256, 112, 112, 32, {{3, 3}, {1, 1}}, 32, 32);
    const Launch depthwise = weights_gradient(s, Kernel::depthwise_conv2d_backward_weights);
    CHECK(double(s.batch) * s.out_height * s.out_width / splits_of(depthwise, driver) <= most);
}

TEST_CASE("every item has an invocation, a subgroup or a workgroup, until the device is full") {
    CHECK(groups_of(update(1)) == 1);
    CHECK(groups_of(update(256)) == 1);
    CHECK(groups_of(update(257)) == 2);
    CHECK(groups_of(update(1u << 31)) == 4096);
    CHECK(groups_of(losses(128)) == 128);
    CHECK(groups_of(losses(256)) == 256);
    CHECK(groups_of(losses(300)) == 256); // eight subgroups of 32 a workgroup; 38 would leave the device idle
    CHECK(groups_of(losses(2049)) == 257);
    CHECK(groups_of(images(300)) == 300);
    CHECK(groups_of(images(5000)) == 4096);
}

TEST_CASE("a product gets one workgroup per tile, and tall tiles if these fill the device") {
    const auto forward = [](const ConvShape& s) {
        return *shared_source_config(launch(kernels::conv2d_forward, {.shape = s}), card);
    };
    const LaunchConfig wide = forward(same_conv(128, 12, 12, 64, 5, 5, 1, 64));
    CHECK(wide.tile->height == 64); // 144 tall tiles are not enough for 256 workgroups
    CHECK(wide.tile->width == 64);
    CHECK(wide.groups.x == 128 * 144 / 64);
    const LaunchConfig tall = forward(same_conv(128, 24, 24, 3, 5, 5, 1, 16));
    CHECK(tall.tile->height == 128);
    CHECK(tall.tile->width == 16);
    CHECK(tall.groups.x == 128 * 576 / 128);
    const LaunchConfig low = forward(same_conv(13, 1, 1, 384, 1, 1, 1, 192));
    CHECK(low.tile->height == 32);
    CHECK(low.groups.x == 3);
    const LaunchConfig grouped = forward(same_conv(1, 8, 8, 64, {{3, 3}, {1, 1}}, 64, 4));
    CHECK(grouped.tile->width == 16);
    CHECK(grouped.groups.x == 4);
}

TEST_CASE("the source by quads takes what fits it") {
    DeviceFacts gpu = card;
    CHECK_FALSE(
        quads_config(launch(kernels::conv2d_forward, {.shape = same_conv(1, 8, 8, 4, 3, 3, 1, 4)}), gpu));
    gpu.quads = true;
    gpu.shared_memory = 32768;
    const auto takes = [&](Kernel kernel, const ConvShape& s) {
        const ParameterBlock block = kernel == Kernel::conv2d_forward
                                         ? ParameterBlock::of(Conv2dForwardParams{.shape = s})
                                         : ParameterBlock::of(Conv2dBackwardDataParams{.shape = s});
        return quads_config({kernel, block}, gpu).has_value();
    };
    for (const Kernel kernel : {Kernel::conv2d_forward, Kernel::conv2d_backward_data}) {
        CHECK(takes(kernel, same_conv(1, 8, 8, 4, 3, 3, 1, 12)));
        CHECK_FALSE(takes(kernel, same_conv(1, 8, 8, 3, 3, 3, 1, 4)));
        CHECK_FALSE(takes(kernel, same_conv(1, 8, 8, 4, 3, 3, 1, 10)));
        CHECK_FALSE(takes(kernel, same_conv(1, 8, 8, 12, {{3, 3}, {1, 1}}, 12, 6))); // two channels a group
        CHECK(takes(kernel, same_conv(1, 8, 8, 12, {{3, 3}, {1, 1}}, 12, 3)));
        CHECK(takes(kernel, same_conv(1, 8, 8, 4, 3, 3, 2, 4)));
    }
    gpu.shared_memory = 16384; // only for the smallest tile
    const auto small = quads_config(
        launch(kernels::conv2d_forward, {.shape = same_conv(128, 12, 12, 64, 5, 5, 1, 64)}), gpu);
    REQUIRE(small);
    CHECK(small->tile->width == 32);
}

TEST_CASE("products by quads take the tile and the parts with which the device is done first") {
    DeviceFacts gpu = card;
    gpu.quads = true;
    gpu.shared_memory = 32768;
    const auto forward = [&](const ConvShape& s) {
        return *quads_config(launch(kernels::conv2d_forward, {.shape = s}), gpu);
    };
    const LaunchConfig rounds = forward(same_conv(128, 12, 12, 64, 5, 5, 1, 64));
    CHECK(rounds.tile->height == 128); // 144 of these tiles would take 128 processors two rounds;
    CHECK(rounds.splits == 5);         // fifths of them take six, of a fifth of the time each.
    CHECK(forward(same_conv(128, 12, 12, 64, 5, 5, 1, 20)).tile->width == 32);
    const LaunchConfig dense = forward(same_conv(128, 1, 1, 2304, 1, 1, 1, 384));
    CHECK(dense.tile->height == 64); // 12 of these tiles
    CHECK(dense.splits == 21);
    CHECK(dense.groups.x == 12 * 21);
    CHECK(forward(same_conv(128, 1, 1, 64, 1, 1, 1, 384)).splits == 1); // adding up would take longer
    for (const unsigned groups : {6u, 8u}) { // as on the tests' devices, which shall run every tile
        gpu.busy_groups = groups;
        CHECK(forward(same_conv(4, 16, 16, 64, 1, 1, 1, 64)).tile->height == 128);
        CHECK(forward(same_conv(3, 5, 7, 4, 3, 3, 1, 12)).tile->width == 32);
        CHECK(quads_config(weights_gradient(same_conv(1, 6, 6, 112, 3, 3, 1, 64)), gpu)->tile->height == 128);
    }
    gpu.busy_groups = card.busy_groups;
    const LaunchConfig split_up =
        *quads_config(weights_gradient(same_conv(128, 12, 12, 64, 5, 5, 1, 64)), gpu);
    CHECK(split_up.splits > 4); // 13 tiles of 128x64
    CHECK(split_up.groups.x <= 4 * gpu.busy_groups);
    CHECK(quads_config(weights_gradient(same_conv(16, 1, 1, 384, 1, 1, 1, 192)), gpu)->splits ==
          1); // few pixels
    constexpr ConfigLimits thirds{.splits = 3};
    gpu.limits = &thirds;
    CHECK(quads_config(weights_gradient(same_conv(128, 1, 1, 384, 1, 1, 1, 192)), gpu)->splits == 3);
}

TEST_CASE("a sum is split only if its product is too small for the device") {
    CHECK(splits(weights_gradient(same_conv(128, 24, 24, 3, 5, 5, 1, 64))) == 128); // two tiles
    CHECK(splits(weights_gradient(same_conv(128, 12, 12, 64, 5, 5, 1, 64))) == 9);  // 26
    CHECK(splits(weights_gradient(same_conv(128, 1, 1, 384, 1, 1, 1, 192))) == 1);  // too few pixels
    CHECK(splits(weights_gradient(same_conv(32, 14, 14, 512, 3, 3, 1, 512))) == 1); // 584 tiles
    const ConvShape depthwise = same_conv(32, 28, 28, 32, {{3, 3}, {1, 1}}, 32, 32);
    CHECK(splits(weights_gradient(depthwise, Kernel::depthwise_conv2d_backward_weights)) == 204);
    const auto data = [](const ConvShape& s) { return launch(kernels::conv2d_backward_data, {.shape = s}); };
    CHECK(splits(data(same_conv(32, 4, 4, 256, 3, 3, 2, 512))) == 8); // 32 tiles
    CHECK(splits(data(same_conv(32, 4, 4, 256, 3, 3, 2, 16))) == 1);  // a depth of 144
    CHECK(splits(update(5)) == 1);
}

TEST_CASE(
    "dense layers of few outputs are split where few workgroups would wait for memory slice after slice") {
    DeviceFacts gpu{.busy_groups = 264, .subgroup_size = 32, .quads = true, .shared_memory = 48 << 10};
    const ConvShape softmax = same_conv(128, 1, 1, 192, 1, 1, 1, 10); // 2 workgroups: 20 us on an H200, or 33
    for (const Launch& each :
         {launch(kernels::conv2d_forward, {.shape = softmax}), weights_gradient(softmax)}) {
        const auto padded = padded_quads_config(each, gpu); // 8 us
        REQUIRE(padded);
        CHECK(padded->splits >= 4);
    }
    const ConvShape few = same_conv(128, 1, 1, 64, 1, 1, 1, 10); // four slices are too few
    CHECK(padded_quads_config(launch(kernels::conv2d_forward, {.shape = few}), gpu).has_value() == false);
}

TEST_CASE("sums over rows fill a card whatever the shape, and no invocation adds up too many") {
    const DeviceFacts gpu{.busy_groups = 264, .subgroup_size = 32, .quads = true};
    struct Sums {
        uint groups, rows, channels;
    };
    for (const auto& [groups, rows, channels] : {Sums{2, 65536, 16}, Sums{1, 802816, 64}, Sums{1, 3136, 2048},
                                                 Sums{4, 16384, 256}, Sums{1, 1 << 22, 3}}) {
        INFO(groups, " groups, ", rows, " rows, ", channels, " channels");
        const Launch moments = launch(kernels::batch_norm_moments,
                                      {.groups = groups, .rows = rows, .channels = channels, .splits = 1});
        const LaunchConfig config = *shared_source_config(moments, gpu);
        CHECK(config.groups.x > gpu.busy_groups);
        CHECK(config.splits <= rows);
        const uint at_once = ROWS_AT_ONCE(COLUMN_WIDTH(QUADS_OF(channels), BATCH_NORM_COLUMNS));
        CHECK(rows / config.splits / at_once <= 512);
    }
    const auto splits_of_rows = [&](uint rows) {
        return splits(launch(kernels::batch_norm_backward_sums,
                             {.groups = 1, .rows = rows, .channels = 16, .splits = 1}));
    };
    CHECK(splits_of_rows(1) == 1);
    CHECK(splits_of_rows(255) == 1);
    CHECK(splits_of_rows(512) == 2); // all rows of a split are loaded at once
}

TEST_CASE("channels are padded to fours where that is faster") {
    DeviceFacts gpu = card;
    gpu.quads = true;
    gpu.shared_memory = 32768;
    const auto forward = [](const ConvShape& s) { return launch(kernels::conv2d_forward, {.shape = s}); };
    const ConvShape tutorial = same_conv(128, 24, 24, 3, 5, 5, 1, 64),
                    imagenet = reference::padded_conv(32, 224, 224, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 64);
    for (const Launch& large : {forward(imagenet), weights_gradient(imagenet), weights_gradient(tutorial),
                                launch(kernels::conv2d_backward_data, {.shape = imagenet})}) {
        const auto padded = padded_quads_config(large, gpu);
        REQUIRE(padded);
        CHECK(padded->cost < shared_source_config(large, gpu)->cost);
    }
    const Launch small = forward(same_conv(1, 5, 7, 3, 3, 3, 1, 13));
    CHECK_FALSE(padded_quads_config(small, gpu));
    CHECK(padded_quads_configs(small, gpu).size() >= 3); // for measuring
    CHECK(padded_quads_configs(forward(same_conv(32, 24, 24, 4, 5, 5, 1, 64)), gpu).empty());
    CHECK(padded_quads_configs(forward(same_conv(32, 24, 24, 6, {{3, 3}, {1, 1}}, 6, 3)), gpu).empty());
    gpu.quads = false;
    CHECK(padded_quads_configs(forward(imagenet), gpu).empty());
}

TEST_CASE("windows' rows are laid out as pixels where sums become shorter by enough") {
    DeviceFacts gpu{.busy_groups = 264, .subgroup_size = 32, .quads = true, .shared_memory = 48 << 10};
    const auto forward = [](const ConvShape& s) { return launch(kernels::conv2d_forward, {.shape = s}); };
    const ConvShape tutorial = same_conv(128, 24, 24, 3, 5, 5, 1, 64),
                    grey = same_conv(128, 28, 28, 1, 5, 5, 1, 32),
                    imagenet = reference::padded_conv(32, 224, 224, 3, {{7, 7}, {2, 2}}, {3, 3, 3, 3}, 64);
    for (const Launch& each :
         {forward(tutorial), forward(grey), forward(imagenet), weights_gradient(imagenet)}) {
        const auto rows = window_rows_config(each, gpu), channels = cheapest(padded_quads_configs(each, gpu));
        REQUIRE(rows);
        REQUIRE(channels);
        CHECK(rows->cost < .95 * channels->cost);
        CHECK(choose(gpu_variants(), each, gpu).variant->name == window_rows);
    }
    // 81 rows of the product fill as many tiles as 101.
    CHECK_FALSE(window_rows_config(weights_gradient(tutorial), gpu));
    CHECK(window_rows_configs(weights_gradient(tutorial), gpu).size() >= 3);   // for measuring
    const ConvShape wide = same_conv(64, 224, 224, 1, {{31, 31}, {1, 1}}, 16); // 411 MB of rows
    CHECK(window_rows_configs(forward(wide), gpu).empty());
    CHECK(window_rows_configs(weights_gradient(wide), gpu).empty());
    const ConvShape many = same_conv(32, 14, 14, 130, 3, 3, 1, 64);
    CHECK_FALSE(window_rows_config(forward(many), gpu));
    CHECK(window_rows_configs(launch(kernels::conv2d_backward_data, {.shape = tutorial}), gpu).empty());
}

TEST_CASE("sums that are split side by side and one after the other all come out whole") {
    const ConvShape shapes[] = {same_conv(3, 12, 12, 3, 3, 3, 1, 16), same_conv(1, 9, 9, 8, 1, 1, 1, 13),
                                same_conv(1, 7, 7, 4, 3, 3, 1, 5)};
    on_every_device([&](Device& device) {
        const LimitConfigs limited({.most_groups = 0, .splits = 3});
        std::vector<Buffer> buffers;
        const auto staged = [&](const std::vector<float>& values) {
            buffers.push_back(device.allocate(values.size() * sizeof(float), Memory::staging));
            std::ranges::copy(values, buffers.back().host<float>().begin());
            return Tensor{buffers.back().address()};
        };
        std::vector<Command> commands;
        std::vector<std::vector<double>> expected;
        for (const ConvShape& s : shapes) {
            const std::vector<float> x = random_floats(s.batch * s.in_height * s.in_width * s.in_channels, 1);
            const std::vector<float> dy =
                random_floats(s.batch * s.out_height * s.out_width * s.out_channels, 2);
            expected.push_back(reference::conv2d_weights_gradient(s, widen(x), widen(dy)));
            expected.push_back(reference::conv2d_bias_gradient(s, widen(dy)));
            Conv2dBackwardWeightsParams p{.shape = s, .bias = 1, .splits = 1};
            p.x = staged(x);
            p.dy = staged(dy);
            p.dw = staged(std::vector<float>(expected[expected.size() - 2].size()));
            p.db = staged(std::vector<float>(s.out_channels));
            Launch product = launch(kernels::conv2d_backward_weights, p);
            for (std::size_t i = 0; i < 4; ++i) product.extents[i] = buffers[buffers.size() - 4 + i].bytes();
            commands.push_back(product); // nothing but scratch memory ties it to the others
            if (commands.size() == 2) commands.push_back(Barrier{}); // two side by side, then one
        }
        commands.push_back(Barrier{});
        std::vector<Buffer> copies(expected.size()); // commands know their addresses
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const Buffer& sum = buffers[i / 2 * 4 + 2 + i % 2];
            copies[i] = device.allocate(sum.bytes(), Memory::staging);
            commands.push_back(Copy{{&sum, 0, sum.bytes()}, {&copies[i], 0, sum.bytes()}});
        }
        const Recording recording = device.record(commands);
        for (int run = 0; run < 2; ++run) {
            device.wait(device.submit(recording));
            for (std::size_t i = 0; i < expected.size(); ++i) {
                INFO("gradient ", i);
                check_near("sum", copies[i].host<float>(), expected[i]);
            }
        }
    });
}

} // namespace towers
