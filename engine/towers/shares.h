// How a global batch is shared out among towers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

constexpr unsigned largest_global_batch = 1u << 20;

/// Examples per step of all towers together, when a tower takes `batch` on average. Throws UsageError when
/// that is too many.
unsigned global_batch(unsigned batch, std::size_t towers);

/// Splits `global` examples in the proportion of `weights` (equal when empty) into whole groups of `group`
/// examples that add up. Each tower gets at least one; what is left goes to the largest remainders, the first
/// tower first. Throws UsageError when the examples are no whole number of groups, there are fewer groups
/// than towers, or a weight for each tower is missing.
std::vector<unsigned> share_out(unsigned global, unsigned towers, std::vector<double> weights,
                                unsigned group = 1);

/// The shares, in examples, of a step and of those that follow.
struct SharesFrom {
    std::uint64_t step;
    std::vector<unsigned> shares;
};

/// How the towers' shares come about.
struct SharePolicy {
    bool automatic = false;      ///< the towers' own times decide, step by step
    std::vector<double> weights; ///< else, and at first, in this proportion; equal when empty
    /// As another run had them, in the order of the steps, instead of the weights; with `automatic` the first
    /// entry is where it begins.
    std::vector<SharesFrom> recorded;
};

/// The shares to begin with. Throws UsageError when they do not fit these towers and this batch.
std::vector<unsigned> first_shares(const SharePolicy& policy, unsigned global, unsigned towers,
                                   unsigned group);

/// Of the recorded shares, which are not empty, those of a step.
const std::vector<unsigned>& shares_at(std::span<const SharesFrom> recorded, std::uint64_t step);

/// The shares when the towers that are `lost`, not all of them, have none: the others' grow in proportion.
std::vector<unsigned> shares_without(const std::vector<bool>& lost, std::span<const unsigned> shares,
                                     unsigned group);

/// `3:1`
std::string to_string(std::span<const unsigned> shares);

/// Reads `3:1` or `2:1:1`, or `even`, for which there are no weights. Throws UsageError when a part is not a
/// positive number; `offer` says what to give instead.
std::vector<double> parse_shares(const std::string& text, const char* offer = "even, or a ratio such as 3:1");

} // namespace towers
