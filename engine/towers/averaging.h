// The host part of a step of several towers: adds up their staged gradients, checks them, updates the state.
// It runs the same plan of an update as a single tower, on its own `cpu` device.
#pragma once

#include "backends/device.h"
#include "engine/plan/update.h"
#include "engine/towers/tower.h"

#include <memory>
#include <span>
#include <vector>

namespace towers {

class AveragingStage {
public:
    /// `staged`: each tower's staged gradients, laid out as the variables. `buckets`: those that the towers
    /// deliver. Expects all of them.
    AveragingStage(std::unique_ptr<Device> device, const UpdateSpec& spec,
                   std::vector<std::span<float>> staged, std::span<const ArenaRange> buckets);

    /// Only these towers, in ascending order, deliver in the steps to come.
    void expect(std::span<const std::size_t> towers);

    /// Adds up a bucket that every expected tower has delivered, in the order of the towers.
    void average(std::size_t bucket);

    /// Runs the update, unless a gradient or a loss is infinite or NaN. `cross_entropies`: each tower's part
    /// of the global batch's.
    StepResults update(const StepNumbers& numbers, std::span<const float> cross_entropies);

    std::span<float> state() const { return buffer(Arena::state).host<float>(); }
    /// The sums, weight decay included once update() has run.
    std::span<const float> gradients() const { return buffer(Arena::gradients).host<float>(); }

private:
    const Buffer& buffer(Arena arena) const { return arenas_[std::size_t(arena)]; }
    void run(const Recording& recording);
    Recording record_sum(const ArenaRange& bucket, std::span<const std::size_t> towers);

    std::unique_ptr<Device> device_; // outlives what it made
    std::array<Buffer, arena_count> arenas_;
    std::vector<std::span<float>> staged_;
    std::vector<ArenaRange> buckets_;
    std::vector<Recording> sums_; ///< of each bucket
    Recording update_;
};

} // namespace towers
