// The host part of a step of several towers: averages their staged gradients, checks them, updates the
// parameters. It runs the same kernels as a tower, on its own `cpu` device.
#pragma once

#include "backends/device.h"
#include "engine/plan/parameters.h"
#include "engine/towers/tower.h"

#include <memory>
#include <span>
#include <vector>

namespace towers {

class AveragingStage {
public:
    /// `staged`: each tower's staged gradients, laid out as `layout`; `weights`: its part of the global
    /// batch. `buckets`: those that the towers deliver.
    AveragingStage(std::unique_ptr<Device> device, const ParameterLayout& layout,
                   const std::vector<std::span<float>>& staged, const std::vector<float>& weights,
                   std::span<const ArenaRange> buckets, bool average_first);

    /// Computes the weighted mean of a bucket that every tower has delivered, summed in the order of the
    /// towers.
    void average(std::size_t bucket);

    /// How many elements of the mean are infinite or NaN; call after the last bucket.
    unsigned nonfinite();

    /// Runs the optimizer and the moving average.
    void update(const StepNumbers& numbers);

    std::span<float> parameters() const { return parameters_.host<float>(); }
    std::span<float> averages() const { return averages_.host<float>(); }
    std::span<const float> gradients() const { return gradients_.host<float>(); }

private:
    void run(const Recording& recording);

    std::unique_ptr<Device> device_;
    Buffer parameters_, averages_, gradients_, counts_, step_, results_;
    std::vector<Recording> average_;
    Recording check_, update_;
};

} // namespace towers
