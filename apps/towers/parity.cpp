#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/flags.h"
#include "apps/towers/parity_report.h"
#include "backends/error.h"
#include "engine/data/formats.h"
#include "engine/files/output.h"
#include "engine/plural.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipes.h"
#include "engine/shares/selection.h"
#include "engine/shares/shares.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <memory>

namespace towers {
namespace {

constexpr unsigned default_batch = 32;
/// In fp16: brings a step's gradients into its range. A training's is larger until they overflow.
constexpr float loss_scale = 0x1p10f;

struct ParityFlags {
    std::vector<std::string> set;
    std::string recipe = "cifar10-tutorial", data = "shapes", towers, json;
    bool distort = true;
    unsigned batch = 0; ///< 0: as run_parity() chooses
    std::uint64_t seed = 1, steps = 10;
    double tolerance = 1e-5;
    PrecisionFlags products;
    OpenOptions open;
    std::FILE* text = stdout; ///< the stream for the tables
};

std::array<std::string, 2> check(ParityFlags& flags) {
    if (flags.batch > 1u << 20) throw UsageError(fmt::format("--batch {}: too large; try 32", flags.batch));
    check_threads(flags.open.threads);
    if (!(flags.tolerance >= 0 && std::isfinite(flags.tolerance)))
        throw UsageError(fmt::format("--tolerance {}: give a number of at least 0", flags.tolerance));
    if (std::ranges::count(flags.towers, ',') != 1)
        throw UsageError(fmt::format("--towers '{}': give the two devices to compare, such as cpu,vulkan:0",
                                     flags.towers));
    const std::vector<std::string> towers = select_towers("", flags.towers, flags.open);
    return {towers[0], towers[1]};
}

struct Lockstep {
    std::array<DeviceInfo, 2> devices;
    StepComparison step;
};

/// Closes the devices at the end, so that training can use their memory.
Lockstep run_lockstep(const std::array<std::string, 2>& ids, const Recipe& recipe, const DataSource& data,
                      const ParityFlags& flags) {
    const auto a = open_device(ids[0], flags.open), b = open_device(ids[1], flags.open);
    for (const Device* device : {a.get(), b.get()})
        fmt::print(flags.text, "{}: {}, {}\n", device->info().id, device->info().name, device->info().driver);
    std::fflush(flags.text);
    return {{a->info(), b->info()},
            compare_step(*a, *b, recipe, data,
                         {.batch = flags.batch,
                          .seed = flags.seed,
                          .distort = flags.distort,
                          .tolerance = flags.tolerance,
                          .loss_scale = flags.open.precision == Precision::fp16 ? std::optional(loss_scale)
                                                                                : std::nullopt})};
}

Drift run_drift(const Lockstep& lockstep, const Recipe& recipe, const DataSource& data,
                const ParityFlags& flags) {
    if (flags.steps == 0) return {};
    const auto& devices = lockstep.devices;
    fmt::print(flags.text, "\n{} training steps on each device alone, from the same start:\n", flags.steps);
    print_drift_header(flags.text, devices);
    Drift drift =
        measure_drift({devices[0].id, devices[1].id}, recipe,
                      {.towers = {},
                       .global_batch = flags.batch,
                       .shares = {},
                       .learning_rate = recipe.optimizer->learning_rate,
                       .seed = flags.seed,
                       .distort = flags.distort,
                       .shuffle = true,
                       .quirks = {},
                       .open = flags.open},
                      data, flags.steps, [&](const DriftStep& step) { print_drift(flags.text, step); });
    for (const std::string& message : drift.diverged)
        if (!message.empty()) fmt::print(flags.text, "stopped: {}\n", message);
    fmt::print(flags.text, "moving averages' relative norm at the end: {:.1e}\n", drift.relative_averages);
    return drift;
}

void write_json(const ParityFlags& flags, const Lockstep& lockstep, const Drift& drift) {
    nlohmann::json devices = nlohmann::json::array(), tensors = nlohmann::json::array();
    for (const DeviceInfo& device : lockstep.devices)
        devices.push_back({{"id", device.id}, {"name", device.name}, {"driver", device.driver}});
    nlohmann::json first; // null if no tensor differs
    for (const TensorComparison& each : lockstep.step.tensors) {
        if (!each.same && first.is_null()) first = tensors.size();
        tensors.push_back(to_json(each));
    }
    const nlohmann::json all{
        {"devices", devices},           {"recipe", with_changes(flags.recipe, flags.set)},
        {"data", flags.data},           {"batch", flags.batch},
        {"seed", flags.seed},           {"distort", flags.distort},
        {"tolerance", flags.tolerance}, {"precision", name_of(flags.open.precision)},
        {"tensors", tensors},           {"first_difference", first},
        {"drift", to_json(drift)}};
    // A path may contain bytes that are not text.
    write_output(flags.json, all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

/// Throws if the devices differ, or agree on NaN from finite numbers or on nothing; the error's one line
/// names the first tensor.
void judge(const Lockstep& lockstep, const Drift& drift, const ParityFlags& flags) {
    const auto& devices = lockstep.devices;
    const std::vector<TensorComparison>& comparisons = lockstep.step.tensors;
    const auto differs = [](const TensorComparison& each) { return !each.same; };
    const auto count = std::ranges::count_if(comparisons, differs);
    if (count > 0)
        throw DeviceError(fmt::format(
            "{} and {} differ in {} of {} tensors, first in {}", devices[0].id, devices[1].id, count,
            comparisons.size(), describe_difference(*std::ranges::find_if(comparisons, differs), devices)));
    for (const std::size_t side : {0, 1})
        if (!drift.diverged[side].empty() && drift.diverged[1 - side].empty())
            throw DeviceError(fmt::format("{} keeps training where {} stops: {}", devices[1 - side].id,
                                          devices[side].id, drift.diverged[side]));
    const auto unexplained = [](const TensorComparison& each) { return each.unexplained(); };
    if (const auto nan = std::ranges::count_if(comparisons, unexplained); nan > 0)
        throw DeviceError(fmt::format(
            "{} and {} agree, but on NaN from finite numbers (too large for {}, or a fault of "
            "the kernel) or on nothing in {} of {} tensors, first in {}",
            devices[0].id, devices[1].id, flags.open.precision == Precision::fp16 ? "fp16" : "float32", nan,
            comparisons.size(), describe_unexplained(*std::ranges::find_if(comparisons, unexplained))));
    const TensorComparison& most = *std::ranges::max_element(
        comparisons, {}, [](const TensorComparison& each) { return each.difference.relative_norm; });
    fmt::print(flags.text,
               "clean: all {} tensors of a step agree on {} and {}; largest relative norm {:.1e} ({}, tensor "
               "'{}'), tolerance {:g}\n",
               comparisons.size(), devices[0].id, devices[1].id, most.difference.relative_norm,
               most.operation, most.tensor, most.tolerance);
    const auto is_nan = [](const TensorComparison& each) { return each.difference.both_nan > 0; };
    if (const auto nan = std::ranges::count_if(comparisons, is_nan); nan > 0) {
        const TensorComparison& first = *std::ranges::find_if(comparisons, is_nan);
        fmt::print(
            flags.text,
            "but {} of them hold NaN on both devices, from numbers that overflow before: first {} of {} "
            "elements in {}, tensor '{}'\n",
            nan, first.difference.both_nan, first.difference.elements, first.operation, first.tensor);
    }
}

int run_parity(ParityFlags& flags) {
    const std::array<std::string, 2> ids = check(flags);
    const Recipe recipe = recipe_with(flags.recipe, flags.set);
    choose_precision(flags.open, flags.products, {}, recipe);
    const unsigned group = recipe.model.group();
    if (flags.batch == 0) flags.batch = (default_batch + group - 1) / group * group;
    share_out(flags.batch, 1, {}, group); // throws before anything is opened
    const std::unique_ptr<DataSource> opened = open_data_for(recipe, {flags.data, Split::train, flags.seed});
    const DataSource& data = *opened;
    if (!flags.json.empty()) check_output(flags.json);
    flags.text = text_stream({flags.json});

    const Lockstep lockstep = run_lockstep(ids, recipe, data, flags);
    for (const std::size_t side : {0, 1})
        if (const std::string text = describe(lockstep.step.operands[side], flags.open.precision);
            !text.empty())
            fmt::print(flags.text, "{}: {}\n", lockstep.devices[side].id, text);
    fmt::print(flags.text, "one step of {} in lockstep, {}, seed {}:\n\n", recipe.name,
               count_of(flags.batch, "example"), flags.seed);
    print_comparisons(flags.text, lockstep.step.tensors, lockstep.devices);
    std::fflush(flags.text);
    const Drift drift = run_drift(lockstep, recipe, data, flags);
    if (!flags.json.empty()) write_json(flags, lockstep, drift);
    fmt::print(flags.text, "\n");
    std::fflush(flags.text); // so that an error comes last
    judge(lockstep, drift, flags);
    return 0;
}

} // namespace

void add_parity(CLI::App& app, Action& chosen) {
    CLI::App* const command =
        app.add_subcommand("parity", "Find the first tensor of a training step in which two devices differ");
    const auto flags = std::make_shared<ParityFlags>();
    command
        ->add_option("--towers", flags->towers,
                     "The two devices to compare, such as cpu,vulkan:0 ('towers devices' lists them)")
        ->required();
    command->add_option("--recipe", flags->recipe, recipe_help)->capture_default_str();
    add_set(*command, flags->set);
    command->add_option("--data", flags->data, "Data for the step: " + data_help(true))
        ->capture_default_str();
    add_number(*command, "--batch", flags->batch,
               fmt::format("Number of examples in the step (default: {}, or the next whole number of the "
                           "groups that the recipe's batch norm takes)",
                           default_batch),
               1);
    add_number(*command, "--seed", flags->seed,
               "Seed for the initial values, the order of the examples, the distortions and the drawn shapes")
        ->capture_default_str();
    add_number(*command, "--steps", flags->steps,
               "Number of steps to train on each device afterwards, to show how losses and parameters drift "
               "apart; 0 trains none")
        ->capture_default_str();
    add_number(*command, "--tolerance", flags->tolerance,
               "Largest relative norm ||a - b|| / max(||a||, ||b||) of a tensor that counts as rounding when "
               "both devices get the same inputs; where only one rounds the operands of a product, what that "
               "changes "
               "is added; integers that no rounding decides must be equal")
        ->capture_default_str();
    add_switch(*command, "--distort", flags->distort,
               "Crop, flip and change the images at random, as the recipe says; off uses its evaluation "
               "pipeline");
    add_threads(*command, flags->open.threads);
    add_exact_products(*command, flags->open.exact_products);
    add_precision(*command, flags->products, "the recipe's");
    command->add_option("--json", flags->json, "Also write the numbers to this file as JSON");
    add_device_flags(*command, flags->open);
    command->callback([flags, &chosen] { chosen = [flags] { return run_parity(*flags); }; });
}

} // namespace towers
