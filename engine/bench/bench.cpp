#include "engine/bench/bench.h"

#include "engine/bench/averaging_bench.h"
#include "engine/bench/copies.h"
#include "engine/bench/machine.h"
#include "engine/bench/profile.h"
#include "engine/bench/step_bench.h"
#include "engine/data/source.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>

namespace towers {
namespace {

constexpr std::uint64_t seed = 1;

TrainerOptions trainer_options(const BenchOptions& options, std::vector<std::string> towers,
                               std::vector<double> shares) {
    const unsigned count = unsigned(towers.size());
    return {.towers = std::move(towers),
            .global_batch = options.settings.batch * count,
            .shares = {.automatic = false, .weights = std::move(shares), .recorded = {}},
            .learning_rate = 0.001, // a rate at which no number of steps diverges
            .seed = seed,
            .distort = true,
            .shuffle = true,
            .quirks = {},
            .open = options.open};
}

/// Everything that is measured on one device alone.
class DeviceBench {
public:
    DeviceBench(const std::string& id, const BenchOptions& options, const Recipe& recipe, const Dataset& data)
        : settings_(options.settings), steps_(recipe, trainer_options(options, {id}, {}), settings_, data),
          device_(open_device(id, options.open)), profile_(*device_, recipe, data, settings_.batch),
          empty_(*device_, 1), // a step of one tower is one recording
          copies_(*device_, copy_sizes(recipe)) {}

    void warm_up() {
        steps_.warm_up();
        profile_.repeat(1);
        profile_.reset();
        empty_.repeat();
        empty_.reset();
        copies_.repeat();
        copies_.reset();
    }

    void repeat() {
        steps_.repeat();
        // A quarter of the steps' time; a run takes about as long as a step.
        profile_.repeat(unsigned(std::clamp<std::uint64_t>(steps_.steps() / 4, 1, 1000)));
        empty_.repeat();
        copies_.repeat();
    }

    const StepBench& steps() const { return steps_; }

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
        return figures;
    }

private:
    /// The small one shows a submission's cost, the large one the speed of the memory bus; between them lies
    /// what a step of several towers moves.
    static std::vector<std::size_t> copy_sizes(const Recipe& recipe) {
        return {std::size_t(64) << 10, layout_of(recipe).variable_bytes, std::size_t(64) << 20};
    }

    BenchSettings settings_;
    StepBench steps_;
    std::unique_ptr<Device> device_; // outlives what follows
    StepProfile profile_;
    EmptyStepBench empty_;
    CopyBench copies_;
};

TogetherFigures together_figures(const StepBench& together, const std::vector<std::string>& towers,
                                 const std::vector<std::unique_ptr<DeviceBench>>& alone,
                                 const std::vector<std::string>& ids) {
    TogetherFigures figures;
    figures.towers = towers;
    figures.shares = together.shares();
    figures.steps = together.steps();
    figures.examples_per_s = spread_of(together.examples_per_s());
    figures.step_us = spread_of(together.step_us());
    figures.host_us = spread_of(together.host_us());
    std::vector<double> shares_of_sum;
    for (std::size_t r = 0; r < together.examples_per_s().size(); ++r) {
        double sum = 0;
        for (const auto& device : alone) sum += device->steps().examples_per_s()[r];
        shares_of_sum.push_back(together.examples_per_s()[r] / sum);
    }
    figures.share_of_sum = spread_of(shares_of_sum);

    double global = 0, slowest = 0; // examples, seconds a step
    for (const unsigned share : figures.shares) global += share;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        double share = 0;
        for (std::size_t tower = 0; tower < towers.size(); ++tower)
            if (towers[tower] == ids[i]) share += figures.shares[tower];
        slowest = std::max(slowest, share / median_of(alone[i]->steps().examples_per_s()));
    }
    figures.split_limit_examples_per_s = global / slowest;
    return figures;
}

} // namespace

BenchReport run_bench(const BenchOptions& options) {
    const auto say = [&](const std::string& what) {
        if (options.progress) options.progress(what);
    };
    BenchReport report;
    report.date = utc_date();
    report.machine = describe_machine();
    report.settings = options.settings;
    report.settings.recipe = with_changes(options.settings.recipe, options.set);
    const Recipe recipe = find_recipe(options.settings.recipe, options.set);

    say("drawing the shapes");
    const Dataset data = load_dataset("shapes", Split::train, seed, shapes_size(recipe));
    std::vector<std::string> ids; // each once
    for (const std::string& id : options.towers)
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    std::vector<std::unique_ptr<DeviceBench>> alone;
    for (const std::string& id : ids) {
        say(fmt::format("{}: opening, warming up", id));
        alone.push_back(std::make_unique<DeviceBench>(id, options, recipe, data));
        alone.back()->warm_up();
    }
    std::optional<StepBench> together;
    if (options.together) {
        say("together: opening, warming up");
        together.emplace(recipe, trainer_options(options, options.towers, options.shares), options.settings,
                         data);
        together->warm_up();
    }
    std::vector<std::unique_ptr<AveragingBench>> averaging;
    for (const unsigned towers : {2, 4, 8}) {
        averaging.push_back(std::make_unique<AveragingBench>(recipe, towers, options.settings.threads));
        averaging.back()->repeat();
        averaging.back()->reset();
    }

    for (unsigned r = 1; r <= options.settings.repetitions; ++r) {
        const auto announce = [&](const std::string& what) {
            say(fmt::format("repetition {} of {}: {}", r, options.settings.repetitions, what));
        };
        for (std::size_t i = 0; i < ids.size(); ++i) {
            announce(ids[i]);
            alone[i]->repeat();
        }
        if (together) {
            announce("together");
            together->repeat();
        }
        announce("averaging");
        for (const auto& each : averaging) each->repeat();
    }

    for (const auto& device : alone) report.devices.push_back(device->figures());
    if (together) report.together = together_figures(*together, options.towers, alone, ids);
    for (const auto& each : averaging) report.averaging.push_back(each->figures());
    report.peak_memory_bytes = peak_memory_bytes();
    return report;
}

} // namespace towers
