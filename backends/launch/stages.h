// How a GPU backend runs a launch as several: operands padded to quads, a product, and its parts added up,
// with scratch memory between them.
#pragma once

#include "backends/arithmetic.h"
#include "backends/device.h"
#include "backends/launch/variants.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace towers {

/// The launches as which the variant runs a launch as it offered: those of its own, else the launch itself
/// and, where its sums are split, what adds up the parts. `scratch`: the address of memory of the size that
/// the result says.
StagedLaunch stages_of(const Variant& variant, const Launch& launch, const Offer& offer,
                       const DeviceFacts& facts, std::uint64_t scratch);

/// Those of a launch that one text runs, with the parts that are offered: the product, then their sum.
StagedLaunch split_stages(std::string_view text, const Launch& launch, const Offer& offer,
                          const DeviceFacts& facts, std::uint64_t scratch);

/// The stages of a convolution by quads whose channels are first padded to multiples of four.
StagedLaunch padded_stages(const Launch& launch, const Offer& offer, const DeviceFacts& facts,
                           std::uint64_t scratch);

/// The same convolution with its channels rounded up to multiples of four. Its pointers mean nothing.
Launch with_padded_channels(const Launch& launch);

/// How much scratch memory a recording needs, whose launches need what `bytes_of_launch` says. The launches
/// between two barriers (or timestamps) each have their own, one after the other; after the barrier it is
/// used again.
std::size_t scratch_bytes(std::span<const Command> commands,
                          const std::function<std::size_t(const Launch&)>& bytes_of_launch);

template<class BackendVariant>
std::size_t scratch_bytes(std::span<const Command> commands, std::span<const BackendVariant> variants,
                          const DeviceFacts& facts) {
    return scratch_bytes(commands, [&](const Launch& launch) {
        const auto chosen = choose(variants, launch, facts);
        return stages_of(*chosen.variant, launch, chosen.offer, facts, 0).scratch_bytes;
    });
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
    /// A launch of its kernel's shared text
    template<class Params>
    void add(std::size_t stage, KernelHandle<Params> kernel, const Params& parameters) {
        add_shared_text(stage, launch(kernel, parameters));
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
    void add_shared_text(std::size_t stage, const Launch& launch);

    const DeviceFacts& facts_;
    std::uint64_t scratch_;
    std::size_t bytes_ = 0;
    std::vector<Stage> stages_;
};

} // namespace towers
