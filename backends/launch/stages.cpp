#include "backends/launch/stages.h"

#include "backends/launch/shared_source.h"

#include <optional>
#include <utility>

namespace towers {
namespace {

enum : std::size_t { padding, product, sums };

ConvShape with_window_rows(ConvShape s) {
    s.in_width = s.out_width;
    s.in_channels *= s.kernel_width;
    s.kernel_width = s.stride_x = s.dilation_x = 1;
    s.pad_left = 0;
    return s;
}

/// The stages of a convolution, or of whatever else has sums that can be split.
class ProductStages {
public:
    /// Channels are padded to multiples of `multiple`.
    ProductStages(KernelSource source, const LaunchConfig& config, unsigned multiple,
                  const DeviceFacts& facts, std::uint64_t scratch)
        : source_(source), config_(config), multiple_(multiple), stages_(facts, scratch) {}

    StagedLaunch of(Kernel kernel, Conv2dForwardParams p) && {
        const ConvShape s = pad(p.shape);
        pad_images(p.x, s);
        pad_weights(p.w, s);
        if (add_up(p.y, {.b = p.b,
                         .count = OUT_PIXELS(s) * s.out_channels,
                         .channels = s.out_channels,
                         .bias = p.bias,
                         .relu = p.relu,
                         .rows = 1}))
            p.bias = p.relu = 0;
        return std::move(*this).with_product(kernel, p);
    }

    StagedLaunch of(Kernel kernel, Conv2dBackwardDataParams p) && {
        const ConvShape s = pad(p.shape);
        pad(p.dy, {.outer = 1, .rows = OUT_PIXELS(s), .channels = s.out_channels}, OUT_PIXELS(s));
        pad_weights(p.w, s);
        if (add_up(p.dx, {.x = p.x,
                          .count = IN_PIXELS(s) * s.in_channels,
                          .channels = s.in_channels,
                          .masked = p.relu,
                          .rows = 1}))
            p.relu = 0;
        return std::move(*this).with_product(kernel, p);
    }

    StagedLaunch of(Kernel kernel, Conv2dBackwardWeightsParams p) && {
        const ConvShape s = pad(p.shape);
        const uint rows = s.in_channels / s.groups;
        pad_images(p.x, s);
        pad(p.dy, {.outer = 1, .rows = OUT_PIXELS(s), .channels = s.out_channels}, OUT_PIXELS(s));
        add_up(p.dw,
               {.count = s.kernel_height * s.kernel_width * rows * s.out_channels,
                .channels = s.out_channels,
                .rows = rows},
               padded(rows));
        if (p.bias != 0) add_up(p.db, {.count = s.out_channels, .channels = s.out_channels, .rows = 1});
        return std::move(*this).with_product(kernel, p);
    }

    /// Has the images laid out, and padded, as rows of windows.
    template<class Params>
    StagedLaunch of_window_rows(Kernel kernel, Params p) && {
        const ConvShape s = p.shape;
        p.shape = with_window_rows(s);
        const uint row = padded(p.shape.in_channels);
        const uint rows = s.batch * s.in_height;
        float* const laid_out = stages_.reserve(std::uint64_t(rows) * s.out_width * row);
        stages_.add(padding, kernels::window_rows,
                    {.x = p.x,
                     .y = {reinterpret_cast<vec4*>(laid_out)},
                     .rows = rows,
                     .in_width = s.in_width,
                     .channels = s.in_channels,
                     .out_width = s.out_width,
                     .kernel_width = s.kernel_width,
                     .stride_x = s.stride_x,
                     .pad_left = s.pad_left,
                     .padded_row = row});
        p.x = {laid_out};
        images_padded_ = true;
        return std::move(*this).of(kernel, p);
    }

private:
    uint padded(uint channels) const { return uint(ceil_div(channels, multiple_)) * multiple_; }

    /// Returns the shape as it was.
    ConvShape pad(ConvShape& shape) const {
        const ConvShape before = shape;
        shape.in_channels = padded(shape.in_channels);
        shape.out_channels = padded(shape.out_channels);
        return before;
    }

    void pad(In_f32& tensor, PadChannelsParams to, uint padded_rows) {
        to.padded_rows = padded_rows;
        to.padded_channels = padded(to.channels);
        if (to.padded_rows == to.rows && to.padded_channels == to.channels) return;
        float* const wide = stages_.reserve(std::uint64_t(to.outer) * to.padded_rows * to.padded_channels);
        to.x = tensor;
        to.y = {reinterpret_cast<vec4*>(wide)};
        tensor = {wide};
        stages_.add(padding, kernels::pad_channels, to);
    }
    void pad_images(In_f32& x, const ConvShape& s) {
        if (images_padded_) return;
        pad(x, {.outer = 1, .rows = IN_PIXELS(s), .channels = s.in_channels}, IN_PIXELS(s));
    }
    void pad_weights(In_f32& w, const ConvShape& s) {
        const uint rows = s.in_channels / s.groups;
        pad(w, {.outer = s.kernel_height * s.kernel_width, .rows = rows, .channels = s.out_channels},
            padded(rows));
    }

    /// Has `output`, whose elements `sum` counts, written to scratch memory and added up from there, if it
    /// comes in parts or with more channels. Returns whether.
    bool add_up(Out_f32& output, SumPartialsParams sum, uint rows = 1) {
        const uint channels = padded(sum.channels);
        const bool cut = rows != sum.rows || channels != sum.channels;
        if (config_.splits == 1 && !cut) return false;
        if (cut) sum.padded_rows = rows, sum.padded_channels = channels;
        float* const partials = stages_.reserve(std::uint64_t(config_.splits) * sum.count /
                                                (sum.rows * sum.channels) * rows * channels);
        sum.partials = {partials};
        sum.sum = output;
        sum.parts = config_.splits;
        output = {partials};
        stages_.add(sums, kernels::sum_partials, sum);
        return true;
    }

    template<class Params>
    StagedLaunch with_product(Kernel kernel, Params parameters) && {
        parameters.splits = config_.splits;
        stages_.add(product, {{kernel, ParameterBlock::of(parameters)}, source_, config_});
        return std::move(stages_).finish();
    }

    KernelSource source_;
    LaunchConfig config_;
    unsigned multiple_;
    bool images_padded_ = false;
    StageBuilder stages_;
};

/// The stages of a kernel with two sums over rows, each of which is split: its parts, then what merges them.
class RowSumStages {
public:
    RowSumStages(KernelSource source, const LaunchConfig& config, const DeviceFacts& facts,
                 std::uint64_t scratch)
        : source_(source), config_(config), stages_(facts, scratch) {}

    StagedLaunch of(Kernel kernel, BatchNormMomentsParams p) && {
        BatchNormMergeMomentsParams merge{.mean = p.mean,
                                          .m2 = p.m2,
                                          .groups = p.groups,
                                          .rows = p.rows,
                                          .channels = p.channels,
                                          .splits = config_.splits};
        merge.means = reserve(p.mean, p.groups * p.channels);
        merge.m2s = reserve(p.m2, p.groups * p.channels);
        return std::move(*this).finish(kernel, p, kernels::batch_norm_merge_moments, merge);
    }
    StagedLaunch of(Kernel kernel, BatchNormBackwardSumsParams p) && {
        return std::move(*this).with_merged_sums(kernel, p, p.groups);
    }
    StagedLaunch of(Kernel kernel, LayerNormParameterSumsParams p) && {
        return std::move(*this).with_merged_sums(kernel, p, 1);
    }

private:
    /// Has an output written to scratch memory, where it has so many floats for each part.
    In_f32 reserve(Out_f32& output, std::uint64_t floats) {
        float* const parts = stages_.reserve(floats * config_.splits);
        output = {parts};
        return {parts};
    }

    template<class Params>
    StagedLaunch with_merged_sums(Kernel kernel, Params p, uint groups) && {
        BatchNormMergeSumsParams merge{
            .s1 = p.s1, .s2 = p.s2, .groups = groups, .channels = p.channels, .splits = config_.splits};
        merge.s1s = reserve(p.s1, groups * p.channels);
        merge.s2s = reserve(p.s2, groups * p.channels);
        return std::move(*this).finish(kernel, p, kernels::batch_norm_merge_sums, merge);
    }

    template<class Params, class MergeParams>
    StagedLaunch finish(Kernel kernel, Params p, KernelHandle<MergeParams> merging,
                        const MergeParams& merge) && {
        p.splits = config_.splits;
        stages_.add(0, {{kernel, ParameterBlock::of(p)}, source_, config_});
        stages_.add(1, merging, merge);
        return std::move(stages_).finish();
    }

    KernelSource source_;
    LaunchConfig config_;
    StageBuilder stages_;
};

} // namespace

StagedLaunch StageBuilder::finish() && {
    std::erase_if(stages_, [](const Stage& each) { return each.empty(); });
    return {std::move(stages_), scratch_, bytes_};
}

void StageBuilder::add_shared_source(std::size_t stage, const Launch& launch) {
    add(stage, {launch, KernelSource::shared, *shared_source_config(launch, facts_)});
}

StagedLaunch stages_of(const Variant& variant, const Launch& launch, const LaunchConfig& config,
                       const DeviceFacts& facts, std::uint64_t scratch) {
    if (variant.stages != nullptr) return variant.stages(launch, config, facts, scratch);
    return split_stages(variant.source, launch, config, facts, scratch);
}

StagedLaunch split_stages(KernelSource source, const Launch& launch, const LaunchConfig& config,
                          const DeviceFacts& facts, std::uint64_t scratch) {
    if (config.splits == 1) return {{{{launch, source, config}}}, scratch, 0};
    std::optional<StagedLaunch> row_sums = with_row_sums(launch, [&](const auto& p) {
        return RowSumStages(source, config, facts, scratch).of(launch.kernel, p);
    });
    if (row_sums) return std::move(*row_sums);
    return with_parameters(launch, [&](const auto& p) {
        return ProductStages(source, config, 1, facts, scratch).of(launch.kernel, p);
    });
}

namespace {

StagedLaunch stages_of_padded(KernelSource source, const Launch& launch, const LaunchConfig& config,
                              const DeviceFacts& facts, std::uint64_t scratch) {
    return with_parameters(launch, [&](const auto& p) {
        return ProductStages(source, config, 4, facts, scratch).of(launch.kernel, p);
    });
}

StagedLaunch stages_in_rows(KernelSource source, const Launch& launch, const LaunchConfig& config,
                            const DeviceFacts& facts, std::uint64_t scratch) {
    ProductStages stages(source, config, 4, facts, scratch);
    if (launch.kernel == Kernel::conv2d_forward)
        return std::move(stages).of_window_rows(launch.kernel, launch.parameters.as<Conv2dForwardParams>());
    return std::move(stages).of_window_rows(launch.kernel,
                                            launch.parameters.as<Conv2dBackwardWeightsParams>());
}

} // namespace

StagedLaunch padded_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                           std::uint64_t scratch) {
    return stages_of_padded(KernelSource::quads, launch, config, facts, scratch);
}

StagedLaunch window_rows_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                                std::uint64_t scratch) {
    return stages_in_rows(KernelSource::quads, launch, config, facts, scratch);
}

StagedLaunch padded_fragments_stages(const Launch& launch, const LaunchConfig& config,
                                     const DeviceFacts& facts, std::uint64_t scratch) {
    return stages_of_padded(KernelSource::fragments, launch, config, facts, scratch);
}

StagedLaunch window_rows_by_fragments_stages(const Launch& launch, const LaunchConfig& config,
                                             const DeviceFacts& facts, std::uint64_t scratch) {
    return stages_in_rows(KernelSource::fragments, launch, config, facts, scratch);
}

Launch with_window_rows(const Launch& launch) {
    return with_parameters(launch, [&](auto p) {
        p.shape = with_window_rows(p.shape);
        return Launch{launch.kernel, ParameterBlock::of(p)};
    });
}

Launch with_padded_channels(const Launch& launch) {
    return with_parameters(launch, [&](auto p) {
        p.shape.in_channels = uint(ceil_div(p.shape.in_channels, 4)) * 4;
        p.shape.out_channels = uint(ceil_div(p.shape.out_channels, 4)) * 4;
        return Launch{launch.kernel, ParameterBlock::of(p)};
    });
}

} // namespace towers
