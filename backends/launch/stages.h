// How a GPU backend runs a launch as several: operands padded to quads, a product, and its parts added up,
// with scratch memory between them.
#pragma once

#include "backends/arithmetic.h"
#include "backends/launch/variants.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace towers {

/// The launches as which the variant runs a launch as it offered: those of its own, else the launch itself
/// and, where its sums are split, what adds up the parts. `scratch`: the address of memory of the size that
/// the result says.
StagedLaunch stages_of(const Variant& variant, const Launch& launch, const LaunchConfig& config,
                       const DeviceFacts& facts, std::uint64_t scratch);

/// Those of a launch that one source runs, with the parts that are offered: the product, then their sum.
StagedLaunch split_stages(KernelSource source, const Launch& launch, const LaunchConfig& config,
                          const DeviceFacts& facts, std::uint64_t scratch);

/// The stages of a convolution by quads whose channels are first padded to multiples of four.
StagedLaunch padded_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                           std::uint64_t scratch);

/// Likewise after the rows of its windows have been laid out as pixels of a convolution one wide
/// (with_window_rows()).
StagedLaunch window_rows_stages(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts,
                                std::uint64_t scratch);

/// Both with the source by fragments
StagedLaunch padded_fragments_stages(const Launch& launch, const LaunchConfig& config,
                                     const DeviceFacts& facts, std::uint64_t scratch);
StagedLaunch window_rows_by_fragments_stages(const Launch& launch, const LaunchConfig& config,
                                             const DeviceFacts& facts, std::uint64_t scratch);

/// The forward pass or weights gradient of the same convolution on images whose pixels are the rows of its
/// windows, kernel width x channels, so that its kernel is one wide. It needs one group and, along rows, no
/// dilation. Its pointers mean nothing.
Launch with_window_rows(const Launch& launch);

/// The same convolution with its channels rounded up to multiples of four. Its pointers mean nothing.
Launch with_padded_channels(const Launch& launch);

/// Returns `use` of the parameters of a kernel with sums over rows, and nothing of another.
template<class Function>
auto with_row_sums(const Launch& launch, Function use)
    -> std::optional<decltype(use(BatchNormMomentsParams()))> {
    switch (launch.kernel) {
    case Kernel::batch_norm_moments:
        return use(launch.parameters.as<BatchNormMomentsParams>());
    case Kernel::batch_norm_backward_sums:
        return use(launch.parameters.as<BatchNormBackwardSumsParams>());
    case Kernel::layer_norm_parameter_sums:
        return use(launch.parameters.as<LayerNormParameterSumsParams>());
    default:
        return {};
    }
}

/// Calls `use` with the parameters of a convolution or dense layer.
template<class Function>
auto with_parameters(const Launch& launch, Function use) {
    switch (launch.kernel) {
    case Kernel::conv2d_forward:
        return use(launch.parameters.as<Conv2dForwardParams>());
    case Kernel::conv2d_backward_data:
        return use(launch.parameters.as<Conv2dBackwardDataParams>());
    default:
        return use(launch.parameters.as<Conv2dBackwardWeightsParams>());
    }
}

/// Puts together the stages of a launch.
class StageBuilder {
public:
    StageBuilder(const DeviceFacts& facts, std::uint64_t scratch) : facts_(facts), scratch_(scratch) {}

    /// Scratch memory that nothing else has
    float* reserve(std::uint64_t floats) {
        const std::uint64_t address = scratch_ + bytes_;
        bytes_ += aligned(floats * sizeof(float));
        return reinterpret_cast<float*>(address);
    }
    void add(std::size_t stage, const StageLaunch& launch) {
        if (stages_.size() <= stage) stages_.resize(stage + 1);
        stages_[stage].push_back(launch);
    }
    /// A launch of its kernel's shared source
    template<class Params>
    void add(std::size_t stage, KernelHandle<Params> kernel, const Params& parameters) {
        add_shared_source(stage, launch(kernel, parameters));
    }
    /// The stages of a part of the launch, which begins at `first` and has the scratch memory from
    /// unreserved() on.
    void add(std::size_t first, const StagedLaunch& part) {
        for (std::size_t i = 0; i < part.stages.size(); ++i)
            for (const StageLaunch& each : part.stages[i]) add(first + i, each);
        bytes_ += part.scratch_bytes;
    }
    std::uint64_t unreserved() const { return scratch_ + bytes_; }
    /// Leaves out stages without launches.
    StagedLaunch finish() &&;

private:
    void add_shared_source(std::size_t stage, const Launch& launch);

    const DeviceFacts& facts_;
    std::uint64_t scratch_;
    std::size_t bytes_ = 0;
    std::vector<Stage> stages_;
};

} // namespace towers
