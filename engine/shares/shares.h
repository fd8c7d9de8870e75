// How towers share a global batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace towers {

constexpr unsigned largest_global_batch = 1u << 20;

/// The examples per step of all towers if each takes `batch` on average. Throws UsageError if that is too
/// many.
unsigned global_batch(unsigned batch, std::size_t towers);

/// Divides `global` examples in proportion to `weights` (empty: equally) into shares of whole groups of
/// `group` examples. Each tower gets at least one group; remaining groups go to the largest remainders, the
/// first tower first. Throws UsageError if the examples are not whole groups, there are fewer groups than
/// towers, or the number of weights is wrong.
std::vector<unsigned> share_out(unsigned global, unsigned towers, std::vector<double> weights,
                                unsigned group = 1);

/// A tower's part of a step.
struct Share {
    unsigned examples = 0;
    /// In how many micro-batches the tower computes it if its memory suffices for that, as recorded, so that
    /// the bits are the same; 0: in as few as fit.
    unsigned micro_batches = 0;
    /// It is the whole global batch of several towers, and the tower also updates the state.
    bool alone = false;
    auto operator<=>(const Share&) const = default;
};

/// Shares with these micro-batches; empty: in as few as fit.
std::vector<Share> to_shares(std::span<const unsigned> examples,
                             std::span<const unsigned> micro_batches = {});

/// How the towers took their shares, and the first step that has this.
struct SharesFrom {
    std::uint64_t step;
    std::vector<unsigned> shares; ///< in examples
    /// Of each share; 0: of a tower without one. Empty: not recorded, as in early versions.
    std::vector<unsigned> micro_batches = {};

    bool same_as(const SharesFrom& other) const { // whatever the step
        return shares == other.shares && micro_batches == other.micro_batches;
    }
};

/// How the towers' shares are determined.
struct SharePolicy {
    bool automatic = false;      ///< from the towers' times, step by step
    std::vector<double> weights; ///< otherwise, and at first, in this proportion; empty: equal
    /// Instead of weights: the shares that this run had before it was resumed, or that another run had, in
    /// the order of steps. With `automatic`, only the first entry is used, as the start.
    std::vector<SharesFrom> recorded;
};

/// The first shares. Throws UsageError if they do not fit these towers and this batch.
std::vector<unsigned> first_shares(const SharePolicy& policy, unsigned global, unsigned towers,
                                   unsigned group);

/// The recorded shares of a step; there must be recorded shares.
const SharesFrom& shares_at(std::span<const SharesFrom> recorded, std::uint64_t step);

/// The shares after the towers in `lost`, which are not all, have failed: the others' grow in proportion.
std::vector<unsigned> shares_without(const std::vector<bool>& lost, std::span<const unsigned> shares,
                                     unsigned group);

/// `3:1`
std::string to_string(std::span<const unsigned> shares);

/// Reads weights such as `3:1` or `2:1:1`; returns none for `even`. Throws UsageError if a part is not a
/// positive number; `offer` says what to give instead.
std::vector<double> parse_shares(const std::string& text, const char* offer = "even, or a ratio such as 3:1");

} // namespace towers
