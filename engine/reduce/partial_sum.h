// What a rank adds up of gradients before it sends them.
#pragma once

#include "engine/reduce/host_reducer.h"
#include "engine/reduce/wire.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace towers {

/// Adds up gradients before they are sent: those of one rank's towers, or of one host's ranks. So each byte
/// travels once for all of them. Rounds as bfloat16 what leaves the host, if that is asked. One input alone
/// need not be added up: it is sent from where it is.
class PartialSum {
public:
    /// `slices`: those of which it makes sums, in the order of the buckets. Inputs that have only these have
    /// them one after another. `rounds`: whether a slice's sum is rounded; empty: none is. `end`: of the
    /// variables that may be rounded, in bytes.
    PartialSum(const OpenOptions& host, Milestones::Spin spin, std::vector<RankPart::Input> inputs,
               std::size_t buckets, std::span<const Slice> slices,
               const std::function<bool(const Slice&)>& rounds, std::size_t end);

    /// Of the step: these inputs, added up in this order.
    void begin(const StepNumbers& numbers, std::span<const std::size_t> inputs);
    /// All inputs of so many buckets are there.
    void give(std::size_t buckets);
    /// Buckets whose sums are complete.
    const Milestones& complete() const { return buckets_.complete(); }
    void fail();
    void end();
    /// The step counts, for RoundedSums.
    void keep();
    /// Another state is loaded, to which nothing belongs that was left of earlier steps.
    void forget();
    /// The sums, laid out as the variables; empty: there are no inputs.
    std::span<const float> sums() const;
    /// Those that are rounded, likewise.
    std::span<const Bfloat16> rounded() const { return rounded_->rounded(); }
    /// The memory of sums of several inputs; empty: they are never added up.
    std::span<const float> of_several() const {
        return memory_.bytes() > 0 ? memory_.host<float>() : std::span<const float>();
    }

private:
    struct Block {
        ArenaRange range;
        std::size_t bucket;
        std::size_t place; ///< in inputs that have only its slices
        bool rounds;
    };
    void work_on(std::size_t block);
    bool adds() const;

    const std::vector<RankPart::Input> inputs_;
    std::vector<std::size_t> active_;
    std::optional<RoundedSums> rounded_; ///< none: nothing is
    bool works_ = false;                 ///< whether there is anything to do in the step
    std::unique_ptr<Device> host_;
    Buffer memory_;
    std::vector<Block> blocks_;
    std::vector<std::size_t> ready_; ///< by bucket: blocks up to its end
    BucketCount buckets_;
    std::unique_ptr<Team> team_; ///< null: there are no blocks
};

} // namespace towers
