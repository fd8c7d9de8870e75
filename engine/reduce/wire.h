// Sums of gradients as bfloat16, which halves their bytes on a network.
#pragma once

#include "engine/plan/state.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The type in which sums of gradients travel between ranks.
enum class Wire { fp32, bf16 };

/// What lies between the ranks of a run.
struct RankLinks {
    /// Of gradients that go to another host. What stays on a host, statistics and new parameters are always
    /// float32.
    Wire wire = Wire::fp32;
    std::vector<unsigned> hosts = {}; ///< see Routes
};

/// By its name: `bf16`. Throws UsageError, which names --wire.
Wire parse_wire(const std::string& name);

/// The upper half of a float32.
using Bfloat16 = std::uint16_t;

/// Both have the same length.
void widen(std::span<const Bfloat16> from, std::span<float> to);

/// Sums of gradients rounded to the nearest bfloat16, of two the even one. What the rounding took from an
/// element is added to it before it is rounded in the next step, so nothing is lost in the long run. A step
/// counts as a whole or not at all: see keep().
class RoundedSums {
public:
    explicit RoundedSums(std::size_t count) : rounded_(count), left_{Floats(count), Floats(count)} {}

    /// Begins a step whose gradients have this factor.
    void begin(float loss_scale);
    /// Rounds a range of the sums, each once in a step. Several threads may.
    void round(std::span<const float> sums, const ArenaRange& range);
    /// What has been rounded.
    std::span<const Bfloat16> rounded() const { return rounded_; }
    /// The step counts. Otherwise the next one adds what the last that counts has left.
    void keep();
    /// The next step begins without anything left.
    void forget();

private:
    using Floats = std::vector<float>;
    std::vector<Bfloat16> rounded_;
    std::array<Floats, 2> left_; ///< by the steps that count so far, and by this one
    std::size_t current_ = 0;
    float left_scale_ = 1, scale_ = 1; ///< loss scales of what is left, and of this step
};

} // namespace towers
