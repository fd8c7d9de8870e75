// What threads have done of the buckets of a step, block by block.
#pragma once

#include "backends/milestones.h"

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

namespace towers {

/// Gradients and state of a block stay in a core's cache, and a block is long enough that launches cost
/// little.
constexpr std::size_t block_bytes = std::size_t(64) << 10;

/// Counts the buckets that are complete, in their order: those that were given and whose blocks are all done.
class BucketCount {
public:
    BucketCount(std::size_t buckets, Milestones::Spin spin)
        : blocks_(buckets), undone_(buckets), complete_(spin) {}

    /// Before the first step: the bucket has one more block.
    void add_block(std::size_t bucket) { ++blocks_[bucket]; }
    /// `has_blocks`: else nothing is to be done of the step's buckets but to give them.
    void restart(bool has_blocks = true) {
        given_ = 0;
        for (std::size_t i = 0; i < undone_.size(); ++i) undone_[i] = (has_blocks ? blocks_[i] : 0) + 1;
        complete_.restart();
    }
    /// The first so many buckets are given. One thread.
    void give(std::size_t buckets) {
        for (; given_ < buckets; ++given_) count_done(given_);
    }
    /// A block of the bucket is done. Whoever does the last of a bucket completes it, and those after it that
    /// are done already.
    void count_done(std::size_t bucket) {
        if (--undone_[bucket] > 0) return;
        std::size_t done = complete_.count();
        while (done < undone_.size() && undone_[done] == 0) ++done;
        complete_.advance(done);
    }
    void fail() { complete_.fail(); }
    const Milestones& complete() const { return complete_; }

private:
    std::vector<std::size_t> blocks_; ///< by bucket
    /// By bucket: how many of these are not done, and one if the bucket has not been given.
    std::vector<std::atomic<std::size_t>> undone_;
    std::size_t given_ = 0;
    Milestones complete_;
};

/// Adds up `count` lists, at least two, of which `given(i)` is one, in their order.
template<class Given>
void add_in_order(std::size_t count, const Given& given, std::span<float> sum) {
    const std::span<const float> first = given(0), second = given(1);
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] = first[k] + second[k];
    for (std::size_t i = 2; i < count; ++i) {
        const std::span<const float> more = given(i);
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
    }
}

} // namespace towers
