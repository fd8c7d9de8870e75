// Estimates the training step of a recipe on a card that need not be present, from the plan and the choices
// that the program would make there: how long each launch takes, and how near its floor that is.
//
// An estimate only, good to some tens of per cent: a product takes the cycles of its config
// (backends/launch/shared_source.h), any other launch what its bytes take; each has a fixed cost, and so has
// each level.
#include "backends/launch/lowering.h"
#include "backends/launch/quads.h"
#include "backends/launch/shared_source.h"
#include "backends/launch/stages.h"
#include "engine/data/pipeline.h"
#include "engine/plan/work.h"
#include "engine/recipes/recipe.h"
#include "engine/recipes/recipe_data.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/step/network.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace towers {
namespace {

/// By default an H100 SXM
struct Card {
    unsigned units = 132;    ///< multiprocessors
    double gigahertz = 1.98; ///< their clock
    double gigabytes = 3350; ///< a second, of its memory
    double level_us = 1.5;   ///< between levels: a graph's edge, and the pipeline that drains and fills
    double launch_us = 1;    ///< of a launch that has nothing to do
    double warp_bytes = 1.7; ///< a cycle, that a warp on its own reads
    unsigned subgroup_size = 32, warps = 8; ///< in a workgroup of 256
};

struct Estimate {
    std::string variant;
    LaunchConfig config;
    double us, floor_us;
    std::uint64_t depth = 0; ///< of a product
};

DeviceFacts facts_of(const Card& card) {
    return {.busy_groups = 2 * card.units,
            .subgroup_size = card.subgroup_size,
            .quads = true,
            .shared_memory = 48 << 10};
}

Estimate estimate(const Operation& operation, const Plan& plan, const Card& card) {
    const Cost cost = cost_of(operation, plan);
    const double cycles_per_us = card.gigahertz * 1e3, bytes_per_us = card.gigabytes * 1e3;
    const double floor_us =
        std::max(cost.flops / (2 * 128 * card.units * cycles_per_us), cost.bytes / bytes_per_us);
    const auto* launch = std::get_if<Launch>(&operation.work);
    if (launch == nullptr) return {"copy", {}, card.launch_us + cost.bytes / bytes_per_us, floor_us};
    const DeviceFacts facts = facts_of(card);
    const auto chosen = choose(gpu_variants(), *launch, facts);
    Estimate result{std::string(chosen.variant->name), chosen.config, 0, floor_us};
    if (const auto products = products_of(*launch)) {
        result.depth = products->depth;
        result.us = card.launch_us + result.config.cost / cycles_per_us;
    } else {
        const double warps = kernel_info(launch->kernel).item == Item::subgroup
                                 ? double(items_of(*launch))
                                 : double(result.config.groups.x) * card.warps;
        result.us =
            card.launch_us + cost.bytes / std::min(bytes_per_us, warps * card.warp_bytes * cycles_per_us);
    }
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

/// The shape of a recording as a graph of commands.
struct Graph {
    std::size_t commands = 0, edges = 0, longest = 0; ///< commands of the longest chain
};

/// `known`: whether the device knows what commands touch; otherwise each level waits for the one before it.
Graph graph_of(const Plan& plan, const DeviceFacts& facts, bool known) {
    CommandOrder order;
    Graph graph;
    std::vector<std::size_t> chain; // by command: the commands of the longest chain that ends there
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
            std::size_t before = 0;
            for (const std::size_t each : order.add(std::move(footprint))) {
                before = std::max(before, chain[each]);
                ++graph.edges;
            }
            chain.push_back(before + 1);
            graph.longest = std::max(graph.longest, before + 1);
        }
    }
    graph.commands = chain.size();
    return graph;
}

Plan plan_of(const Recipe& recipe, unsigned batch) {
    const StateLayout layout = layout_of(recipe);
    const NetworkSpec spec = network_spec(
        recipe, layout,
        {.batch = batch, .stored = stored_size(recipe), .slots = 50000, .seed = 1, .distort = true});
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
    app.add_option("--most", most_us, "exit code 1 if the step is estimated to take more microseconds");
    CLI11_PARSE(app, count, words);

    const Plan plan = plan_of(find_recipe(name), batch);
    double total = 0, floor = 0;
    std::vector<std::string> idle;
    fmt::print("{:34} {:12} {:8} {:>5} {:>8} {:>6} {:>8} {:>8}\n", "operation", "variant", "tile", "parts",
               "groups", "depth", "floor us", "us");
    for (const Level& level : plan.levels()) {
        total += card.level_us;
        for (const Operation& operation : level) {
            const Estimate one = estimate(operation, plan, card);
            const std::string tile =
                one.config.tile ? fmt::format("{}x{}", one.config.tile->height, one.config.tile->width) : "";
            fmt::print("{:34} {:12} {:8} {:5} {:8} {:6} {:8.1f} {:8.1f}\n", operation.name, one.variant, tile,
                       one.config.splits, one.config.groups.x, one.depth, one.floor_us, one.us);
            total += one.us;
            floor += one.floor_us;
            if (one.depth >= 128 && one.config.groups.x < card.units)
                idle.push_back(fmt::format("{}: {} workgroups for {} multiprocessors, depth {}",
                                           operation.name, one.config.groups.x, card.units, one.depth));
        }
    }
    fmt::print("{} levels; the floor is {:.0f} us, the estimate {:.0f} us\n", plan.levels().size(), floor,
               total);
    const DeviceFacts facts = facts_of(card);
    const Graph by_levels = graph_of(plan, facts, false), by_bytes = graph_of(plan, facts, true);
    fmt::print("a graph of {} commands, the longest chain has {}: {} edges by levels, {} by bytes\n",
               by_bytes.commands, by_bytes.longest, by_levels.edges, by_bytes.edges);
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
