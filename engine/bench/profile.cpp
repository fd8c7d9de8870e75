#include "engine/bench/profile.h"

#include "engine/execution/operands.h"
#include "engine/plan/work.h"
#include "engine/recipes/batch_tables.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"

#include <algorithm>
#include <numeric>

namespace towers {

StepProfile::StepProfile(Device& device, const Recipe& recipe, const DataSource& data, unsigned batch)
    : session_(device) {
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(recipe, layout,
                                          {.batch = batch,
                                           .stored = data.image_size(),
                                           .slots = data.size(),
                                           .seed = 1,
                                           .distort = true,
                                           .largest_allocation = device.info().largest_allocation});
    const TableMaker make_tables(recipe, data, 1, true);
    plan_ = plan_single_step(spec, update_spec(recipe, layout)).plan;
    session_.hold(plan_.bytes());
    session_.load(data);
    session_.upload(Arena::state, initial_state(layout, 1));
    std::vector<Example> examples(batch);
    make_sampler(recipe, data, 1, true).fill(0, examples);
    ResidentFeed(data).bring(examples);
    const BatchTables tables = make_tables(0, examples);
    session_.write(Batch::all(0, examples, {}, tables));
    session_.write(StepNumbers{.learning_rate = 0, .average_decay = 0});

    // A timestamp separates the commands before and after it, so the plan's barriers are not needed. There is
    // nothing between the first two.
    std::vector<Command> commands = {Timestamp{}, Timestamp{}};
    for (const Command& command : session_.bind(plan_)) {
        if (std::holds_alternative<Barrier>(command)) continue;
        commands.push_back(command);
        commands.push_back(Timestamp{});
    }
    recording_ = device.record(commands);
    for (const Level& level : plan_.levels())
        for (const Operation& operation : level) operations_.push_back(&operation);
    operation_us_.resize(operations_.size());
}

void StepProfile::repeat(unsigned runs) {
    std::vector<std::vector<double>> gaps(operations_.size() + 1); // the first one is empty
    std::vector<double> sums;
    for (unsigned run = 0; run < runs; ++run) {
        session_.run(recording_);
        const std::vector<double> moments = session_.device().timestamps(recording_);
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
            plan_.bytes(Arena(i));
    figures.multiplications.emplace();
    for (const auto& [operands, part] : operand_parts(session_.device(), plan_))
        figures.multiplications->push_back({std::string(name_of(operands)), part});
    if (sum_us_.empty()) return;
    figures.timestamp_us = median_of(timestamp_us_);
    figures.kernels_us = spread_of(sum_us_);
    double sum = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
        const Cost cost = cost_of(*operations_[i], plan_);
        KernelFigures& kernel = figures.kernels.emplace_back();
        kernel.name = operations_[i]->name;
        kernel.kernel = kernel_name(*operations_[i]);
        if (const auto* const launch = std::get_if<Launch>(&operations_[i]->work))
            for (const Candidate& each : session_.device().candidates(*launch))
                if (each.used) kernel.variant = to_string(each.variant, each.config);
        kernel.time_us = spread_of(operation_us_[i]);
        kernel.flops = cost.flops;
        kernel.bytes = cost.bytes;
        // A clock may be too coarse for the smallest kernels.
        const double seconds = std::max(kernel.time_us.median, 1e-3) * 1e-6;
        if (cost.flops > 0) kernel.gflops = cost.flops / seconds * 1e-9;
        kernel.gb_per_s = cost.bytes / seconds * 1e-9;
        sum += kernel.time_us.median;
    }
    for (KernelFigures& kernel : figures.kernels) kernel.share = sum > 0 ? kernel.time_us.median / sum : 0;
}

} // namespace towers
