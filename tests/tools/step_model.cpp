// Estimates the training step of a recipe on a card that need not be present, from the plan and the choices
// that the program would make there: how long each launch takes, and how near its floor that is.
//
// A product takes the cycles of its config (backends/launch/costs.h), any other launch what its bytes, its
// loads one after another or its instructions take. The floor of a product is what its multiply-adds take,
// with Winograd's method as many as are left. The step is a graph as CUDA runs it, in which launches run side
// by side.
#include "backends/launch/costs.h"
#include "backends/launch/lowering.h"
#include "backends/launch/quads.h"
#include "backends/launch/stages.h"
#include "engine/data/pipeline.h"
#include "engine/plan/work.h"
#include "engine/recipes/recipe.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace towers {
namespace {

/// By default an H100 SXM
struct Card {
    unsigned units = 132;    ///< multiprocessors
    double gigahertz = 1.98; ///< their clock
    double gigabytes = 3350; ///< a second, of its memory
    // What one card, an H200, took where launches hardly do anything else:
    double launch_us = 1.2; ///< a launch
    double edge_us = 0.3;   ///< between a command of a graph and one that waits for it
    double load_us = 0.55;  ///< until a load from memory arrives
    double reached = 0.885; ///< of its memory's bandwidth, by kernels that only read and write
    unsigned subgroup_size = 32, threads = 2048; ///< resident on a multiprocessor
    Precision precision = Precision::fp32;       ///< that products may have
};

/// What a kernel that is not tiled does beside moving bytes as fast as the card can, fitted to six recipes'
/// launches on an H200: with few invocations each waits for one load after another, with costly ones for
/// instructions.
struct KernelCosts {
    Kernel kernel;
    double in_flight;    ///< bytes that an invocation waits for at once
    double instructions; ///< that an invocation executes for an item
    bool timed = true;   ///< by a card; else as the source reads
};
constexpr double any_in_flight = 32; ///< two quads
constexpr KernelCosts known_kernels[] = {
    {Kernel::add_tensors, any_in_flight, 0},
    {Kernel::augment_images, any_in_flight, 0},
    {Kernel::average_pool_backward, any_in_flight, 370},
    {Kernel::average_pool_forward, any_in_flight, 0},
    {Kernel::batch_norm_backward, 48, 0},
    {Kernel::batch_norm_backward_sums, 128, 0, false},
    {Kernel::batch_norm_forward, 32, 0},
    {Kernel::batch_norm_moments, 64, 0, false},
    {Kernel::batch_norm_parameter_gradients, 48, 0},
    {Kernel::batch_norm_statistics, 16, 0},
    {Kernel::draw_augmentations, any_in_flight, 0},
    {Kernel::lrn_backward, 160, 380, false},
    {Kernel::lrn_forward, any_in_flight, 0},
    {Kernel::max_pool_backward, any_in_flight, 1050, false}, // of a block of 2x2 pixels
    {Kernel::max_pool_forward, 48, 490, false},              // of a window of 3x3
    {Kernel::momentum, any_in_flight, 0},
    {Kernel::moving_average, any_in_flight, 0},
    {Kernel::relu_backward, any_in_flight, 0},
    {Kernel::sgd, any_in_flight, 0},
    {Kernel::softmax_cross_entropy, 16, 0},
    {Kernel::weight_decay, 128, 0, false},
};

struct Estimate {
    std::string variant;
    LaunchConfig config;
    double us;      ///< alone on the card
    double busy_us; ///< what it takes of the whole card
    double floor_us;
    bool timed = true;        ///< a card has run launches of the kernel, and the model is fitted to them
    std::uint64_t depth = 0;  ///< of a product
    std::size_t launches = 0; ///< as which the card runs it
};

DeviceFacts facts_of(const Card& card) {
    return {.busy_groups = 2 * card.units,
            .subgroup_size = card.subgroup_size,
            .precision = card.precision,
            .quads = true,
            .fragments = {.operands = units_for(Precision::tf32) | units_for(Precision::bf16) |
                                      units_for(Precision::fp16)},
            .shared_memory = 48 << 10};
}

/// That an H100's matrix units of a multiprocessor could execute in a cycle
double multiply_adds_of(Precision operands) { return operands == Precision::tf32 ? 1024 : 2048; }

/// The only product of a launch's stages
const StageLaunch& product_of(const StagedLaunch& staged) {
    for (const Stage& stage : staged.stages)
        for (const StageLaunch& each : stage)
            if (products_of(each.launch)) return each;
    throw std::logic_error("no product");
}

/// What a launch of `cost` cycles, with this product, takes of the whole card
double busy_cycles(double cost, const StageLaunch& product, std::size_t stages, const DeviceFacts& facts) {
    const auto& [launch, source, config] = product;
    const bool in_fours = source != KernelSource::shared, is_split = config.splits > 1;
    const Products products = in_fours ? products_by_quads(launch) : *products_of(launch);
    const SourceCosts costs = source == KernelSource::fragments ? fragments_costs(config.operands)
                              : in_fours                        ? quads_costs
                                                                : shared_costs(launch.kernel);
    // Other stages move bytes between their barriers.
    const double others = cost - cycles_of(products, *config.tile, config.splits, costs, facts),
                 barriers = double(stages - 1 - is_split) * cycles_of_stage(0, facts);
    return busy_cycles_of(products, *config.tile, config.splits, costs, facts) +
           std::max(0., others - barriers);
}

Estimate estimate(const Operation& operation, const Plan& plan, const Card& card) {
    const Cost cost = cost_of(operation, plan);
    const double cycles_per_us = card.gigahertz * 1e3, bytes_per_us = card.gigabytes * 1e3;
    const double card_cycles_per_us = card.units * cycles_per_us, lanes = 128;
    const auto floor_of = [&](double flops, double multiply_adds = 128) {
        return std::max(flops / (2 * multiply_adds * card_cycles_per_us), cost.bytes / bytes_per_us);
    };
    const double bytes_us = cost.bytes / (card.reached * bytes_per_us);
    const auto* launch = std::get_if<Launch>(&operation.work);
    if (launch == nullptr) return {"copy", {}, card.launch_us + bytes_us, bytes_us, floor_of(0)};
    const DeviceFacts facts = facts_of(card);
    const auto chosen = choose(gpu_variants(), *launch, facts);
    Estimate result{std::string(chosen.variant->name), chosen.config, card.launch_us, 0,
                    floor_of(cost.flops)};
    const StagedLaunch staged = stages_of(*chosen.variant, *launch, chosen.config, facts, 0);
    for (const Stage& stage : staged.stages) result.launches += stage.size();
    if (const auto products = products_of(*launch)) {
        result.depth = products->depth;
        result.us += result.config.cost / cycles_per_us;
        const StageLaunch& product = product_of(staged);
        result.floor_us = floor_of(
            std::min(cost.flops, flops_of(product.launch)),
            product.source == KernelSource::fragments ? multiply_adds_of(product.config.operands) : lanes);
        result.busy_us =
            busy_cycles(chosen.config.cost, product, staged.stages.size(), facts) / cycles_per_us;
    } else {
        const auto* const known = std::ranges::find(known_kernels, launch->kernel, &KernelCosts::kernel);
        const KernelCosts costs =
            known != std::end(known_kernels) ? *known : KernelCosts{launch->kernel, any_in_flight, 0, false};
        result.timed = costs.timed;
        const KernelInfo& kernel = kernel_info(launch->kernel);
        const unsigned of_item = kernel.item == Item::workgroup  ? kernel.workgroup_size
                                 : kernel.item == Item::subgroup ? card.subgroup_size
                                                                 : 1;
        const double invocations = double(items_of(*launch)) * result.config.splits * of_item;
        const double at_once = std::min({invocations, double(card.units) * card.threads,
                                         double(result.config.groups.x) * kernel.workgroup_size});
        const double rounds = std::ceil(cost.bytes / (at_once * costs.in_flight));
        result.busy_us = std::max(bytes_us, invocations * costs.instructions / (lanes * card_cycles_per_us));
        result.us += std::max(result.busy_us, rounds * card.load_us);
        // What merges the parts loads them, and what they belong to, all at once.
        if (result.config.splits > 1) result.us += card.edge_us + card.launch_us + 2 * card.load_us;
    }
    result.busy_us = std::min(result.busy_us, result.us);
    return result;
}

/// What an operation touches, at addresses that stand for a card's.
Footprint footprint_of(const Operation& operation, const Plan& plan) {
    Footprint footprint;
    for (const Plan::Use& use : Plan::uses(operation)) {
        const PlannedTensor& tensor = plan.at(use.tensor);
        const std::uint64_t begin = ((std::uint64_t(tensor.arena) + 1) << 48) + tensor.offset;
        footprint.bytes.push_back({begin, begin + tensor.bytes, use.writes});
    }
    return footprint;
}

/// A recording as a graph of commands
struct Graph {
    std::vector<std::vector<std::size_t>> before; ///< by command: those that it must come after

    std::size_t edges() const {
        std::size_t count = 0;
        for (const auto& each : before) count += each.size();
        return count;
    }
    /// Commands of the longest chain
    std::size_t longest() const {
        std::vector<std::size_t> chain;
        for (const auto& each : before) {
            std::size_t longest = 0;
            for (const std::size_t i : each) longest = std::max(longest, chain[i]);
            chain.push_back(longest + 1);
        }
        return std::ranges::max(chain);
    }
};

/// `known`: whether the device knows what commands touch; otherwise each level waits for the one before it.
Graph graph_of(const Plan& plan, const DeviceFacts& facts, bool known) {
    CommandOrder order;
    Graph graph;
    for (const Level& level : plan.levels()) {
        order.barrier();
        std::size_t scratch = 0;
        for (const Operation& operation : level) {
            Footprint footprint = footprint_of(operation, plan);
            footprint.known = known;
            if (const auto* launch = std::get_if<Launch>(&operation.work)) {
                const auto chosen = choose(gpu_variants(), *launch, facts);
                const std::size_t bytes =
                    stages_of(*chosen.variant, *launch, chosen.config, facts, 0).scratch_bytes;
                if (bytes > 0) footprint.bytes.push_back({scratch, scratch + bytes, true});
                scratch += bytes;
            }
            graph.before.push_back(order.add(std::move(footprint)));
        }
    }
    return graph;
}

/// When the last command of the graph ends: each begins after those before it, and commands that run side by
/// side share the card in proportion to what they take of it.
double end_of(const Graph& graph, const std::vector<Estimate>& commands, double edge_us) {
    struct Running {
        std::size_t command;
        double begins, left; ///< left: part of it
    };
    std::vector<std::size_t> waits_for;
    std::vector<std::vector<std::size_t>> after(commands.size());
    std::vector<Running> running;
    for (std::size_t i = 0; i < commands.size(); ++i) {
        waits_for.push_back(graph.before[i].size());
        for (const std::size_t each : graph.before[i]) after[each].push_back(i);
        if (graph.before[i].empty()) running.push_back({i, 0, 1});
    }
    double now = 0;
    while (!running.empty()) {
        double load = 0, until = std::numeric_limits<double>::infinity();
        for (const Running& each : running)
            if (each.begins <= now) load += commands[each.command].busy_us / commands[each.command].us;
        const double pace = 1 / std::max(1.0, load);
        for (const Running& each : running)
            until = std::min(until, each.begins > now ? each.begins
                                                      : now + each.left * commands[each.command].us / pace);
        for (Running& each : running)
            if (each.begins <= now) each.left -= (until - now) * pace / commands[each.command].us;
        now = until;
        const auto ended =
            std::ranges::partition(running, [](const Running& each) { return each.left > 1e-9; });
        const std::vector<Running> done(ended.begin(), ended.end());
        running.erase(ended.begin(), ended.end());
        for (const Running& each : done)
            for (const std::size_t next : after[each.command])
                if (--waits_for[next] == 0) running.push_back({next, now + edge_us, 1});
    }
    return now;
}

Plan plan_of(const Recipe& recipe, unsigned batch) {
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(
        recipe, layout,
        {.batch = batch, .stored = stored_size(recipe), .slots = batch, .seed = 1, .distort = true});
    return plan_single_step(spec, update_spec(recipe, layout)).plan;
}

int run(int count, char** words) {
    CLI::App app("Estimates a training step on a card that need not be present");
    std::string name;
    unsigned batch = 128;
    double most_us = 0;
    Card card;
    app.add_option("RECIPE", name, "a built-in recipe, or its file")->required();
    app.add_option("--batch", batch, "examples")->capture_default_str();
    app.add_option("--units", card.units, "multiprocessors")->capture_default_str();
    app.add_option("--clock", card.gigahertz, "GHz")->capture_default_str();
    app.add_option("--bandwidth", card.gigabytes, "GB/s of its memory")->capture_default_str();
    std::string precision = std::string(name_of(card.precision));
    app.add_option("--precision", precision, "of products: fp32, tf32, bf16 or fp16")
        ->check([](const std::string& text) {
            return precision_of(text) ? "" : "no precision is called " + text;
        })
        ->capture_default_str();
    app.add_option("--most", most_us, "exit code 1 if the step is estimated to take more microseconds");
    CLI11_PARSE(app, count, words);
    card.precision = *precision_of(precision);

    const Plan plan = plan_of(find_recipe(name), batch);
    double floor = 0;
    std::vector<Estimate> commands;
    std::vector<std::string> idle;
    std::set<std::string> untimed;
    fmt::print("{:34} {:12} {:8} {:>5} {:>8} {:>6} {:>8} {:>8}\n", "operation", "variant", "tile", "parts",
               "groups", "depth", "floor us", "us");
    for (const Level& level : plan.levels()) {
        for (const Operation& operation : level) {
            const Estimate one = estimate(operation, plan, card);
            const std::string tile =
                one.config.tile ? fmt::format("{}x{}", one.config.tile->height, one.config.tile->width) : "";
            fmt::print("{:34} {:12} {:8} {:5} {:8} {:6} {:8.1f} {:8.1f}{}\n", operation.name, one.variant,
                       tile, one.config.splits, one.config.groups.x, one.depth, one.floor_us, one.us,
                       one.timed ? "" : " untimed");
            floor += one.floor_us;
            if (one.depth >= 128 && one.config.groups.x < card.units)
                idle.push_back(fmt::format("{}: {} workgroups for {} multiprocessors, depth {}",
                                           operation.name, one.config.groups.x, card.units, one.depth));
            if (!one.timed) untimed.insert(kernel_info(std::get<Launch>(operation.work).kernel).name);
            commands.push_back(one);
        }
    }
    const DeviceFacts facts = facts_of(card);
    const Graph by_levels = graph_of(plan, facts, false), by_bytes = graph_of(plan, facts, true);
    const double total = end_of(by_bytes, commands, card.edge_us);
    fmt::print("{} levels; the floor is {:.0f} us, the estimate {:.0f} us\n", plan.levels().size(), floor,
               total);
    std::size_t launches = 0;
    for (const Estimate& each : commands) launches += each.launches;
    fmt::print("a graph of {} commands with {} launches, the longest chain has {}: {} edges by levels, {} by "
               "bytes\n",
               by_bytes.before.size(), launches, by_bytes.longest(), by_levels.edges(), by_bytes.edges());
    if (!untimed.empty())
        fmt::print("estimated from bytes and operations, as no card has timed them: {}\n",
                   fmt::join(untimed, ", "));
    for (const std::string& line : idle) fmt::print("leaves multiprocessors idle: {}\n", line);
    return most_us != 0 && total > most_us ? 1 : 0;
}

} // namespace
} // namespace towers

int main(int count, char** words) {
    try {
        return towers::run(count, words);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
