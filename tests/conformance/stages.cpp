// The launches as which a launch runs, and the scratch memory between them.
#include "backends/launch/stages.h"
#include "backends/launch/lowering.h"
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"

#include "tests/conformance/harness.h"
#include "tests/conformance/reference.h"

namespace towers {
namespace {

using namespace test;
using reference::same_conv;

constexpr DeviceFacts card{.busy_groups = 256, .subgroup_size = 32, .quads = true, .shared_memory = 32768};
constexpr std::uint64_t scratch = 1 << 20;

constexpr Variant plain{Kernel::conv2d_backward_weights, shared_source, shared_source_config,
                        shared_source_configs};
constexpr Variant padded{Kernel::conv2d_backward_weights,
                         padded_quads,
                         padded_quads_config,
                         padded_quads_configs,
                         {},
                         padded_stages};

constexpr Variant rows{Kernel::conv2d_forward, window_rows, window_rows_config,
                       window_rows_configs,    {},          window_rows_stages};

Launch weights_gradient(const ConvShape& s) {
    return {Kernel::conv2d_backward_weights,
            ParameterBlock::of(Conv2dBackwardWeightsParams{.shape = s, .bias = 1, .splits = 1})};
}

StagedLaunch staged(const Variant& variant, const Launch& launch, const LaunchConfig& config) {
    return stages_of(variant, launch, config, card, scratch);
}

std::unique_ptr<Allocation> allocate(std::size_t bytes) {
    auto allocation = std::make_unique<Allocation>();
    allocation->address = scratch;
    allocation->bytes = bytes;
    return allocation;
}

/// The kernels of each stage
std::vector<std::vector<Kernel>> kernels_of(const StagedLaunch& launch) {
    std::vector<std::vector<Kernel>> all;
    for (const Stage& stage : launch.stages) {
        all.emplace_back();
        for (const StageLaunch& each : stage) all.back().push_back(each.launch.kernel);
    }
    return all;
}

} // namespace

TEST_CASE("a launch that is whole runs as it is, and a split one is added up") {
    const Launch launch = weights_gradient(same_conv(128, 24, 24, 3, 5, 5, 1, 64));
    const StagedLaunch whole = staged(plain, launch, {.groups = {5, 1, 1}, .splits = 1});
    CHECK(kernels_of(whole) == std::vector<std::vector<Kernel>>{{launch.kernel}});
    CHECK(whole.stages[0][0].source == KernelSource::shared);
    CHECK(whole.stages[0][0].config.groups.x == 5);
    CHECK(whole.scratch_bytes == 0);
    const StagedLaunch split = staged(plain, launch, {.groups = {5, 1, 1}, .splits = 3});
    CHECK(kernels_of(split) ==
          std::vector<std::vector<Kernel>>{{launch.kernel}, {Kernel::sum_partials, Kernel::sum_partials}});
    CHECK(split.scratch_bytes == aligned(3 * 75 * 64 * 4) + aligned(3 * 64 * 4));
    const auto product = split.stages[0][0].launch.parameters.as<Conv2dBackwardWeightsParams>();
    CHECK(product.splits == 3);
    CHECK(reinterpret_cast<std::uint64_t>(product.dw.at) == scratch);
    CHECK(reinterpret_cast<std::uint64_t>(product.db.at) == scratch + aligned(3 * 75 * 64 * 4));
}

TEST_CASE("sums over rows take one stage more, whatever the number of rows") {
    for (const uint rows : {1u, 4096u, 65536u, 1u << 24}) {
        const BatchNormMomentsParams p{.groups = 2, .rows = rows, .channels = 13, .splits = 1};
        const Launch moments = launch(kernels::batch_norm_moments, p);
        const LaunchConfig config = *shared_source_config(moments, card);
        const StagedLaunch staged = split_stages(KernelSource::shared, moments, config, card, scratch);
        std::vector<std::vector<Kernel>> expected{{moments.kernel}};
        if (rows > 1) expected.push_back({Kernel::batch_norm_merge_moments});
        CHECK(kernels_of(staged) == expected);
        if (rows > 1) CHECK(staged.scratch_bytes == 2 * aligned(std::uint64_t(2) * config.splits * 13 * 4));
    }
}

TEST_CASE("what is padded runs as a product by quads of four channels, and is cut") {
    const Launch launch = weights_gradient(same_conv(2, 24, 24, 3, 5, 5, 1, 64));
    const StagedLaunch whole = staged(padded, launch, {.splits = 1});
    CHECK(kernels_of(whole) ==
          std::vector<std::vector<Kernel>>{{Kernel::pad_channels}, {launch.kernel}, {Kernel::sum_partials}});
    CHECK(whole.stages[1][0].source == KernelSource::quads);
    const auto product = whole.stages[1][0].launch.parameters.as<Conv2dBackwardWeightsParams>();
    CHECK(product.shape.in_channels == 4);
    CHECK(product.db.at == nullptr); // 64 channels need no cut
    CHECK(whole.scratch_bytes == aligned(2 * 24 * 24 * 4 * 4) + aligned(25 * 4 * 64 * 4));
    const StagedLaunch split = staged(padded, launch, {.splits = 7});
    CHECK(split.scratch_bytes ==
          aligned(2 * 24 * 24 * 4 * 4) + aligned(7 * 25 * 4 * 64 * 4) + aligned(7 * 64 * 4));
}

TEST_CASE("windows' rows are laid out as the channels of images for a kernel one wide") {
    const Launch forward{Kernel::conv2d_forward,
                         ParameterBlock::of(Conv2dForwardParams{
                             .shape = same_conv(2, 24, 20, 3, 5, 5, 1, 64), .bias = 1, .splits = 1})};
    const StagedLaunch whole = staged(rows, forward, {.splits = 1});
    CHECK(kernels_of(whole) == std::vector<std::vector<Kernel>>{{Kernel::window_rows, Kernel::pad_channels},
                                                                {Kernel::conv2d_forward}});
    const auto product = whole.stages[1][0].launch.parameters.as<Conv2dForwardParams>();
    CHECK(product.shape.in_channels == 16);
    CHECK(product.shape.kernel_width == 1);
    CHECK(product.bias == 1);
    CHECK(whole.scratch_bytes == aligned(2 * 24 * 20 * 16 * 4) + aligned(5 * 16 * 64 * 4));
}

TEST_CASE("scratch memory is reused after each barrier, and never shared between barriers") {
    const Launch launch = weights_gradient(same_conv(128, 24, 24, 3, 5, 5, 1, 64));
    const std::span<const Variant> variants(&plain, 1);
    const std::size_t one = staged(plain, launch, *shared_source_config(launch, card)).scratch_bytes;
    CHECK(one >= 128 * (75 * 64 + 64) * sizeof(float));
    const Command commands[] = {launch, Barrier{}, launch, launch, Barrier{}, launch, Timestamp{}, launch};
    const Lowered lowered = lower(commands, variants, card, {nullptr, allocate});
    CHECK(lowered.scratch->bytes == 2 * one);
    const std::uint64_t expected[] = {scratch, scratch, scratch + one, scratch, scratch};
    auto next = std::begin(expected);
    REQUIRE(lowered.commands.size() == std::size(commands));
    for (std::size_t i = 0; i < std::size(commands); ++i) {
        const auto* const here = std::get_if<LoweredLaunch>(&lowered.commands[i]);
        REQUIRE((here != nullptr) == std::holds_alternative<Launch>(commands[i]));
        if (here == nullptr) continue;
        CHECK(here->launch == &std::get<Launch>(commands[i]));
        const auto product = here->staged.stages[0][0].launch.parameters.as<Conv2dBackwardWeightsParams>();
        CHECK(reinterpret_cast<std::uint64_t>(product.dw.at) == *next);
        const Footprint::Bytes own = footprint_of(*here).bytes.back();
        CHECK(own.begin == *next);
        CHECK(own.end == *next + one);
        CHECK(own.written);
        ++next;
    }
    DeviceFacts whole = card;
    constexpr ConfigLimits one_part{.splits = 1};
    whole.limits = &one_part;
    CHECK(lower(commands, variants, whole, {nullptr, allocate}).scratch == nullptr);
}

} // namespace towers
