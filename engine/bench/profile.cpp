#include "engine/bench/profile.h"

#include "backends/upload.h"
#include "engine/data/sampler.h"
#include "engine/plan/work.h"

#include <algorithm>
#include <numeric>

namespace towers {
namespace {

TrainingPlan plan_step(const Recipe& recipe, const StateLayout& layout, const DataSource& data,
                       unsigned batch, std::uint64_t largest_allocation) {
    return plan_single_step({.model = &recipe.model,
                             .layout = &layout,
                             .pipeline = &recipe.pipeline,
                             .batch = batch,
                             .stored = data.image_size(),
                             .records = data.size(),
                             .seed = 1,
                             .distort = true,
                             .largest_allocation = largest_allocation},
                            {.layout = &layout, .optimizer = recipe.optimizer.get()});
}

} // namespace

StepProfile::StepProfile(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch)
    : device_(device) {
    const StateLayout layout = layout_of(recipe);
    plan_ = plan_step(recipe, layout, data, batch, device.info().largest_allocation);
    ResidentFeed feed(data);
    arenas_ = allocate_arenas(device, plan_.plan, feed);
    load(layout, feed, batch);

    // A timestamp orders what stands before and after it, so the plan's barriers are not needed; the first
    // two have nothing between them.
    std::vector<Command> commands = {Timestamp{}, Timestamp{}};
    for (const Command& command : plan_.plan.bind(pointers_to(arenas_), 0, plan_.plan.levels().size())) {
        if (std::holds_alternative<Barrier>(command)) continue;
        commands.push_back(command);
        commands.push_back(Timestamp{});
    }
    recording_ = device.record(commands);
    for (const Level& level : plan_.plan.levels())
        for (const Operation& operation : level) operations_.push_back(&operation);
    operation_us_.resize(operations_.size());
}

void StepProfile::load(const StateLayout& layout, Feed& feed, unsigned batch) {
    const auto arena = [&](Arena which) -> const Buffer& { return arenas_[std::size_t(which)]; };
    const std::vector<float> state = initial_state(layout, 1);
    upload(device_, arena(Arena::state), std::as_bytes(std::span(state)));
    std::vector<Example> examples(batch);
    Sampler(std::uint32_t(feed.slots()), 1, true).fill(0, examples);
    feed.bring(examples);
    write_step(arena(Arena::step), {.learning_rate = 0, .average_decay = 0}, examples);
}

void StepProfile::repeat(unsigned runs) {
    std::vector<std::vector<double>> gaps(operations_.size() + 1); // the first one is empty
    std::vector<double> sums;
    for (unsigned run = 0; run < runs; ++run) {
        device_.wait(device_.submit(recording_));
        const std::vector<double> moments = device_.timestamps(recording_);
        if (moments.empty()) return; // no clock
        for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i].push_back((moments[i + 1] - moments[i]) * 1e6);
        sums.push_back((moments.back() - moments[1]) * 1e6);
    }
    timestamp_us_.push_back(median_of(gaps[0]));
    for (std::size_t i = 0; i < operations_.size(); ++i) operation_us_[i].push_back(median_of(gaps[i + 1]));
    sum_us_.push_back(median_of(sums));
}

void StepProfile::reset() {
    timestamp_us_.clear();
    sum_us_.clear();
    for (std::vector<double>& each : operation_us_) each.clear();
}

void StepProfile::report(DeviceFigures& figures) const {
    for (std::size_t i = 0; i < arena_count; ++i)
        (is_staging(Arena(i)) ? figures.staging_memory_bytes : figures.device_memory_bytes) +=
            plan_.plan.bytes(Arena(i));
    if (sum_us_.empty()) return;
    figures.timestamp_us = median_of(timestamp_us_);
    figures.kernels_us = spread_of(sum_us_);
    double sum = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        const Work work = work_of(*operations_[i], plan_.plan);
        KernelFigures& kernel = figures.kernels.emplace_back();
        kernel.name = operations_[i]->name;
        kernel.kernel = kernel_name(*operations_[i]);
        kernel.time_us = spread_of(operation_us_[i]);
        kernel.flops = work.flops;
        kernel.bytes = work.bytes;
        // A clock may be too coarse for the smallest kernels.
        const double seconds = std::max(kernel.time_us.median, 1e-3) * 1e-6;
        if (work.flops > 0) kernel.gflops = work.flops / seconds * 1e-9;
        kernel.gb_per_s = work.bytes / seconds * 1e-9;
        sum += kernel.time_us.median;
    }
    for (KernelFigures& kernel : figures.kernels) kernel.share = sum > 0 ? kernel.time_us.median / sum : 0;
}

} // namespace towers
