#include "engine/bench/bench.h"

#include "engine/bench/averaging_bench.h"
#include "engine/bench/copies.h"
#include "engine/bench/machine.h"
#include "engine/bench/profile.h"
#include "engine/bench/step_bench.h"
#include "engine/bench/subset_bench.h"
#include "engine/data/shapes.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <variant>

namespace towers {
namespace {

/// Batch size of the second measurement for LoadFigures.
unsigned second_batch(unsigned batch, unsigned group) {
    const unsigned quarter = std::max(batch / 4 / group, 1u) * group;
    return quarter < batch ? quarter : 2 * batch;
}

/// All measurements of one device alone.
class DeviceBench {
public:
    DeviceBench(const std::string& id, const BenchOptions& options, const Recipe& recipe,
                const DataSource& data)
        : options_(options), recipe_(recipe), data_(data),
          steps_(recipe, bench_training({id}, options.settings.batch, {}, options.open), options.settings,
                 data),
          second_batch_(second_batch(options.settings.batch, recipe.model.group())),
          second_({id}, {second_batch_}), device_(open_device(id, options.open)),
          profile_(*device_, recipe, data, options.settings.batch), empty_(*device_),
          exchanged_bytes_(layout_of(recipe).variable_bytes), copies_(*device_, copy_sizes()) {}

    void warm_up() {
        steps_.warm_up();
        profile_.repeat(2); // Vulkan may run the first two kernel by kernel
        profile_.reset();
        empty_.repeat();
        empty_.reset();
        copies_.repeat();
        copies_.reset();
    }

    void repeat() {
        steps_.repeat();
        if (options_.together) second_.repeat(recipe_, options_, data_);
        // Spends a quarter of the steps' time; a run takes about as long as a step.
        profile_.repeat(unsigned(std::clamp<std::uint64_t>(steps_.steps() / 4, 1, 1000)));
        empty_.repeat();
        copies_.repeat();
    }

    const std::string& id() const { return device_->info().id; }
    const StepBench& steps() const { return steps_; }

    /// What the proposal needs to know of the device, from the measurements so far.
    SoloTower solo(unsigned processors) const {
        const bool cpu = device_->info().kind == DeviceKind::cpu;
        SoloTower tower{.device = id(),
                        .part = cpu ? std::min(1.0, double(options_.settings.threads) / processors) : 1,
                        .step = load()};
        for (const CopyFigures& copy : copies_.figures())
            if (copy.bytes == exchanged_bytes_)
                tower.copy_seconds += double(copy.bytes) * 1e-9 / copy.gb_per_s.median;
        return tower;
    }

    DeviceFigures figures() const {
        const DeviceInfo& info = device_->info();
        DeviceFigures figures;
        figures.id = info.id;
        figures.name = info.name;
        figures.vendor = info.vendor;
        figures.driver = info.driver;
        figures.kind = name_of(info.kind);
        figures.steps = steps_.steps();
        figures.examples_per_s = spread_of(steps_.examples_per_s());
        figures.step_us = spread_of(steps_.step_us());
        figures.host_us = spread_of(steps_.host_us());
        figures.empty_step_us = empty_.us();
        profile_.report(figures);
        figures.copies = copies_.figures();
        if (second_measured())
            figures.load = {second_batch_, spread_of(second_.step_us()), load().fixed * 1e6,
                            load().per_example * 1e6};
        return figures;
    }

private:
    /// The small copy shows the cost of a submission, the large one the speed of the memory bus; copies in
    /// steps with several towers lie between them.
    std::vector<std::size_t> copy_sizes() const {
        return {std::size_t(64) << 10, exchanged_bytes_, std::size_t(64) << 20};
    }

    bool second_measured() const { return !second_.step_us().empty() && !second_.refusal(); }

    LoadModel load() const {
        std::vector<LoadPoint> points{{options_.settings.batch, median_of(steps_.step_us()) * 1e-6}};
        if (second_measured()) points.push_back({second_batch_, median_of(second_.step_us()) * 1e-6});
        return fit_load(points);
    }

    const BenchOptions& options_;
    const Recipe& recipe_;
    const DataSource& data_;
    StepBench steps_;
    unsigned second_batch_;
    SubsetBench second_;
    std::unique_ptr<Device> device_; // outlives what follows
    StepProfile profile_;
    EmptyStepBench empty_;
    std::size_t exchanged_bytes_; ///< by each of several towers in a step, each way
    CopyBench copies_;
};

/// The sum of the devices' rates, by repetition.
std::vector<double> solo_sums(const std::vector<std::unique_ptr<DeviceBench>>& alone) {
    std::vector<double> sums(alone.front()->steps().examples_per_s().size());
    for (const auto& device : alone)
        std::ranges::transform(sums, device->steps().examples_per_s(), sums.begin(), std::plus());
    return sums;
}

TogetherFigures together_figures(const StepBench& together, const std::vector<std::string>& towers,
                                 const std::vector<std::unique_ptr<DeviceBench>>& alone) {
    TogetherFigures figures;
    figures.towers = towers;
    figures.shares = together.shares();
    figures.steps = together.steps();
    figures.examples_per_s = spread_of(together.examples_per_s());
    figures.step_us = spread_of(together.step_us());
    figures.host_us = spread_of(together.host_us());
    figures.beyond_slowest_us = spread_of(together.beyond_slowest_us());
    std::vector<double> shares_of_sum;
    std::ranges::transform(together.examples_per_s(), solo_sums(alone), std::back_inserter(shares_of_sum),
                           std::divides());
    figures.share_of_sum = spread_of(shares_of_sum);

    double global = 0, slowest = 0; // examples in a step; seconds of a step
    for (const unsigned share : figures.shares) global += share;
    for (const auto& device : alone) {
        double share = 0;
        for (std::size_t tower = 0; tower < towers.size(); ++tower)
            if (towers[tower] == device->id()) share += figures.shares[tower];
        slowest = std::max(slowest, share / median_of(device->steps().examples_per_s()));
    }
    figures.split_limit_examples_per_s = global / slowest;
    return figures;
}

/// The proposal's model, from the measurements so far.
StepModel step_model(const BenchOptions& options, const Recipe& recipe, unsigned processors,
                     const std::vector<std::unique_ptr<DeviceBench>>& alone, const StepBench& together) {
    StepModel model{.global = global_batch(options.settings.batch, options.towers.size()),
                    .group = recipe.model.group(),
                    .beyond_seconds = median_of(together.beyond_slowest_us()) * 1e-6};
    for (const std::string& tower : options.towers)
        for (const auto& device : alone)
            if (device->id() == tower) model.towers.push_back(device->solo(processors));
    return model;
}

using Say = std::function<void(const std::string&)>;

/// Opens and warms up the devices and leaves out those that fail. Throws the last one's DeviceError if none
/// is left.
std::vector<std::unique_ptr<DeviceBench>> open_alone(const BenchOptions& options, const Recipe& recipe,
                                                     const DataSource& data, const Say& say,
                                                     std::vector<LeftOut>& left_out) {
    std::vector<std::unique_ptr<DeviceBench>> alone;
    std::exception_ptr failed;
    for (auto tower = options.towers.begin(); tower != options.towers.end(); ++tower) {
        const std::string& id = *tower;
        if (std::find(options.towers.begin(), tower, id) != tower) continue; // each device once
        say(fmt::format("{}: opening, warming up", id));
        try {
            auto device = std::make_unique<DeviceBench>(id, options, recipe, data);
            device->warm_up();
            alone.push_back(std::move(device));
        } catch (const DeviceError& error) {
            left_out.push_back({id, error.what()});
            failed = std::current_exception();
        }
    }
    if (alone.empty()) std::rethrow_exception(failed);
    return alone;
}

/// The options with the remaining towers only.
BenchOptions without(const std::vector<LeftOut>& left_out, const BenchOptions& options) {
    BenchOptions rest = options;
    rest.towers.clear();
    rest.shares.clear();
    for (std::size_t i = 0; i < options.towers.size(); ++i) {
        if (std::ranges::find(left_out, options.towers[i], &LeftOut::what) != left_out.end()) continue;
        rest.towers.push_back(options.towers[i]);
        if (!options.shares.empty()) rest.shares.push_back(options.shares[i]);
    }
    return rest;
}

/// All towers in one run, warmed up.
std::unique_ptr<StepBench> open_together(const BenchOptions& options, const Recipe& recipe,
                                         const DataSource& data) {
    if (options.towers.size() < 2) throw DeviceError("a single tower is left");
    const unsigned global = global_batch(options.settings.batch, options.towers.size());
    auto together = std::make_unique<StepBench>(
        recipe, bench_training(options.towers, global, options.shares, options.open), options.settings, data);
    together->warm_up();
    return together;
}

} // namespace

Recipe recipe_of(const BenchOptions& options) {
    Recipe recipe = find_recipe(options.settings.recipe, options.set);
    for (LossHead& head : recipe.model.heads)
        if (std::holds_alternative<std::map<std::string, double>>(head.class_weights))
            head.class_weights = BalancedClasses{};
    return recipe;
}

BenchReport run_bench(const BenchOptions& options) {
    const Say say = [&](const std::string& what) {
        if (options.progress) options.progress(what);
    };
    BenchReport report;
    report.date = utc_date();
    report.machine = describe_machine();
    report.settings = options.settings;
    report.settings.recipe = with_changes(options.settings.recipe, options.set);
    const Recipe recipe = recipe_of(options);

    say("drawing the shapes");
    const Dataset data = make_shapes(Split::train, bench_seed, stored_size(recipe));
    std::vector<LeftOut> left_out;
    const auto alone = open_alone(options, recipe, data, say, left_out);
    const BenchOptions rest = without(left_out, options);
    std::unique_ptr<StepBench> together;
    if (options.together) {
        say("together: opening, warming up");
        try {
            together = open_together(rest, recipe, data);
        } catch (const DeviceError& error) {
            left_out.push_back({"together", error.what()});
        }
    }
    std::vector<std::unique_ptr<AveragingBench>> averaging;
    for (const unsigned towers : {2, 4, 8}) {
        averaging.push_back(std::make_unique<AveragingBench>(recipe, towers, options.settings.threads));
        averaging.back()->repeat();
        averaging.back()->reset();
    }

    std::optional<ProposalBench> proposal;
    const auto model = [&] { return step_model(rest, recipe, report.machine.processors, alone, *together); };
    for (unsigned r = 1; r <= options.settings.repetitions; ++r) {
        const auto announce = [&](const std::string& what) {
            say(fmt::format("repetition {} of {}: {}", r, options.settings.repetitions, what));
        };
        for (const auto& device : alone) {
            announce(device->id());
            device->repeat();
        }
        if (together) {
            announce("together");
            together->repeat();
            if (!proposal) proposal.emplace(model(), together->shares(), options.subsets);
            for (SubsetBench& bench : proposal->benches()) {
                announce(bench.name());
                bench.repeat(recipe, options, data);
            }
        }
        announce("averaging");
        for (const auto& each : averaging) each->repeat();
    }

    for (const auto& device : alone) report.devices.push_back(device->figures());
    if (together) {
        report.together = together_figures(*together, rest.towers, alone);
        proposal->report(model(), solo_sums(alone), *report.together);
    }
    for (const auto& each : averaging) report.averaging.push_back(each->figures());
    if (!left_out.empty()) report.left_out = left_out;
    report.peak_memory_bytes = peak_memory_bytes();
    return report;
}

} // namespace towers
