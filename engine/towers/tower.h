// One replica of the model on one device.
#pragma once

#include "backends/device.h"
#include "engine/data/dataset.h"
#include "engine/data/sampler.h"
#include "engine/plan/network.h"

#include <array>
#include <memory>
#include <span>
#include <vector>

namespace towers {

/// What the host tells all towers before a step.
struct StepNumbers {
    float learning_rate, average_decay;
};

/// What a tower reports after a step: means over its share.
struct StepResults {
    float total_loss, cross_entropy;
    bool finite; ///< loss and, where the tower checks them, gradients
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

    /// Submits the step's recordings.
    void start();
    /// Waits for recording `index` of recordings(): gradient bucket `index` is then in staged_gradients().
    void wait(std::size_t index);
    std::size_t recordings() const { return recordings_.size(); }
    /// Of the finished step.
    StepResults results() const;

    /// Where a shared step leaves its gradients and finds the parameters, laid out as in ParameterLayout.
    std::span<float> staged_gradients() const { return buffer(Arena::staged_gradients).host<float>(); }
    std::span<float> staged_parameters() const { return buffer(Arena::staged_parameters).host<float>(); }

    /// The parameters and moving averages of a single tower.
    void load(std::span<const float> parameters, std::span<const float> averages);
    void save(std::span<float> parameters, std::span<float> averages);
    /// The gradients of the last step, averaged over the share.
    void save_gradients(std::span<float> gradients);

private:
    const Buffer& buffer(Arena arena) const { return arenas_[std::size_t(arena)]; }

    std::unique_ptr<Device> device_; // outlives what it made
    unsigned share_;
    TrainingPlan plan_;
    std::array<Buffer, arena_count> arenas_;
    std::vector<Recording> recordings_;
    std::vector<Ticket> tickets_;
};

/// Buffers for every arena of a plan, with the data set uploaded. The engine's only way to give a plan
/// memory.
std::array<Buffer, arena_count> allocate_arenas(Device& device, const Plan& plan, const Dataset& data);
/// Writes what a step reads into Arena::step.
void write_step(const Buffer& step, const StepNumbers& numbers, std::span<const Example> examples);
/// As Plan::bind() takes them.
std::array<const Buffer*, arena_count> pointers_to(const std::array<Buffer, arena_count>& arenas);

} // namespace towers
