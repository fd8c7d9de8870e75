#include "engine/reduce/wire.h"

#include "backends/error.h"
#include "backends/precision.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace towers {

Wire parse_wire(const std::string& name) {
    if (name == "fp32") return Wire::fp32;
    if (name == "bf16") return Wire::bf16;
    throw UsageError(fmt::format("--wire '{}': give fp32 or bf16", name));
}

void widen(std::span<const Bfloat16> from, std::span<float> to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::bit_cast<float>(std::uint32_t(from[i]) << 16);
}

void RoundedSums::begin(float loss_scale) { scale_ = loss_scale; }

void RoundedSums::round(std::span<const float> sums, const ArenaRange& range) {
    const std::span<const float> given = part(sums, range),
                                 before = part(std::span<const float>(left_[current_]), range);
    const std::span<float> left = part(std::span(left_[1 - current_]), range);
    const std::span<Bfloat16> rounded = part(std::span(rounded_), range);
    const float factor = scale_ / left_scale_; // a power of two
    std::array<float, 1024> nearest;           // stays in the first-level cache
    for (std::size_t done = 0; done < given.size(); done += nearest.size()) {
        const std::size_t count = std::min(nearest.size(), given.size() - done);
        const std::span<float> sum = left.subspan(done, count);
        for (std::size_t i = 0; i < count; ++i) sum[i] = given[done + i] + factor * before[done + i];
        round_all(sum, Precision::bf16, nearest.data());
        // Sums that are NaN are quiet ones, of which the upper half has the bit that says so.
        for (std::size_t i = 0; i < count; ++i)
            rounded[done + i] = Bfloat16(std::bit_cast<std::uint32_t>(nearest[i]) >> 16);
        for (std::size_t i = 0; i < count; ++i) sum[i] -= nearest[i];
    }
}

void RoundedSums::keep() {
    current_ = 1 - current_;
    left_scale_ = scale_;
}

void RoundedSums::forget() { std::ranges::fill(left_[current_], 0.f); }

} // namespace towers
