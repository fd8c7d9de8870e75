// One replica of the model on one device.
#pragma once

#include "backends/device.h"
#include "engine/data/dataset.h"
#include "engine/data/sampler.h"
#include "engine/plan/network.h"
#include "engine/towers/exchange.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// What a step reports.
struct StepResults {
    float total_loss,
        cross_entropy; ///< of one tower of several: its part of the global batch's mean, no decay
    bool finite;       ///< the loss and, where they are checked, the gradients
};

/// One thread at a time uses a tower. A tower owns its device.
class Tower {
public:
    /// Opens nothing: takes the device, allocates the plan's arenas, uploads the data set and records the
    /// step.
    Tower(std::unique_ptr<Device> device, const Dataset& data, TrainingPlan plan, unsigned share);

    const DeviceInfo& info() const { return device_->info(); }
    unsigned share() const { return share_; }
    std::span<const ArenaRange> buckets() const { return plan_.buckets; }

    /// The tower's share of the next step. `examples`: share() of them.
    void prepare(const StepNumbers& numbers, std::span<const Example> examples);

    /// One recording of the step, and what the host may do once it is finished.
    struct Part {
        Recording recording;
        std::size_t buckets;             ///< this many from the first are then in staged_gradients()
        std::vector<Exchange> exchanges; ///< to be merged before the next part is submitted
    };
    const std::vector<Part>& parts() const { return parts_; }
    /// Submits the parts from `first` on, up to the first that exchanges follow or to the last.
    void submit_from(std::size_t first);
    void wait(std::size_t part);
    /// Of the finished step.
    StepResults results() const;

    /// Where a shared step leaves its gradients and finds the parameters, laid out as StateLayout's
    /// variables.
    std::span<float> staged_gradients() const { return buffer(Arena::staged_gradients).host<float>(); }
    std::span<float> staged_parameters() const { return buffer(Arena::staged_parameters).host<float>(); }

    /// The whole state of a single tower, laid out as StateLayout says.
    void load(std::span<const float> state);
    void save(std::span<float> state);
    /// The gradients of the last step of a single tower.
    void save_gradients(std::span<float> gradients);

private:
    const Buffer& buffer(Arena arena) const { return arenas_[std::size_t(arena)]; }
    std::vector<Exchange> exchanges_of(std::size_t level) const;

    std::unique_ptr<Device> device_; // outlives what it made
    unsigned share_;
    TrainingPlan plan_;
    std::array<Buffer, arena_count> arenas_;
    std::vector<Part> parts_;
    std::vector<Ticket> tickets_; ///< of each part's latest submission
};

/// Buffers for every arena of a plan, with the data set uploaded. The engine's only way to give a plan
/// memory.
std::array<Buffer, arena_count> allocate_arenas(Device& device, const Plan& plan, const Dataset& data);
/// Writes what a step reads into Arena::step: the numbers alone, or with the examples.
void write_numbers(const Buffer& step, const StepNumbers& numbers);
void write_step(const Buffer& step, const StepNumbers& numbers, std::span<const Example> examples);
/// What a step left in Arena::staged_results.
StepResults read_results(const Buffer& staged_results);
/// As Plan::bind() takes them.
std::array<const Buffer*, arena_count> pointers_to(const std::array<Buffer, arena_count>& arenas);

} // namespace towers
