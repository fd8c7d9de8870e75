// Measures what the exchange between ranks costs. Under mpirun: simulated towers, one a rank, take steps
// together; rank 0 prints the rate as a part of the sum of the towers' own rates, the bytes that each rank
// sends in a step, and how much of the exchange is hidden behind the towers' work.
//
// Usage: mpirun -n RANKS exchange [MODEL [MS [STEPS [SLOWER [WIRE]]]]]
// MODEL: small (4.3 MB of gradients) or large (100 MB). MS: of a step of a tower (5). SLOWER: the last rank's
// step takes so many times longer, and shares are automatic (1). WIRE: fp32, or bf16: how gradients travel.

#include "engine/clock.h"
#include "engine/ranks/mpi_transport.h"
#include "engine/ranks/world.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/recipes/recipes.h"
#include "engine/train/trainer.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace towers {
namespace {

/// A network whose gradients have so many bytes, in layers of 1 MB.
Recipe network_of(std::size_t bytes) {
    std::string text = "[input]\nshape = [32, 32, 3]\nclasses = 10\n[network]\nlayers = [\n";
    const std::size_t first = 3072 * 256 * 4, layers = (bytes - first) / (512 * 512 * 4);
    text += "{ name = \"first\", kind = \"dense\", units = 256 },\n";
    for (std::size_t i = 0; i < layers; ++i)
        text += fmt::format("{{ name = \"wide{}\", kind = \"dense\", units = 512 }},\n", i);
    text += "{ name = \"logits\", kind = \"dense\", units = 10 } ]\n"
            "[pipeline]\nvalues = \"normalized\"\nmean = [0.5, 0.5, 0.5]\ndeviation = [0.5, 0.5, 0.5]\n"
            "[optimizer]\nkind = \"momentum\"\nlearning_rate = 0.1\nmomentum = 0.9\n[training]\nbatch = "
            "8\nsteps = 1\n";
    return parse_recipe("wide", text, "wide.toml");
}

int run(int argc, char** argv) {
    const auto word = [&](int i, const char* otherwise) {
        return std::string(i < argc ? argv[i] : otherwise);
    };
    const bool large = word(1, "small") == "large";
    const double seconds = std::atof(word(2, "5").c_str()) / 1e3;
    const int steps = std::atoi(word(3, "200").c_str());
    const double slower = std::atof(word(4, "1").c_str());
    const Wire wire = word(5, "fp32") == "bf16" ? Wire::bf16 : Wire::fp32;
    constexpr int warm_up = 20;
    constexpr unsigned share = 24;
    const auto by = launched();
    if (!by) throw std::runtime_error("start it with mpirun");
    World world(open_mpi_transport(*by, [](const std::string&) { std::_Exit(1); }), {}, "exchange");
    const Recipe recipe = large ? network_of(100'000'000) : find_recipe("cifar10-tutorial");
    const StateLayout layout = layout_of(recipe);
    std::vector<std::string> towers;
    TowerRanks ranks;
    for (unsigned rank = 0; rank < world.size(); ++rank) {
        towers.push_back(fmt::format("{}/simulated", rank));
        ranks.counts.push_back(1);
        ranks.hosts.push_back(world.ranks()[rank].host);
    }
    const unsigned global = share * world.size();
    TrainerOptions options{.towers = towers,
                           .global_batch = global,
                           .shares = {.automatic = slower != 1},
                           .learning_rate = 0.1,
                           .seed = 3,
                           .distort = false,
                           .shuffle = false};
    options.open.threads = 1;
    options.ranks.emplace(world.courier(), ranks, RankLinks{wire, world.hosts()});
    const double factor = world.rank() + 1 == world.size() ? slower : 1;
    options.open_device = [&](std::string_view id, const OpenOptions&) -> std::unique_ptr<Device> {
        return std::make_unique<test::SimulatedDevice>(
            std::string(id),
            test::seconds_by_work(recipe, share, factor * seconds / 3, factor * seconds * 2 / 3));
    };
    const Dataset images = test::noise(200);
    if (world.rank() > 0) {
        Trainer(recipe, options, images).follow(nullptr);
        return 0;
    }
    {
        Trainer trainer(recipe, options, images);
        for (int i = 0; i < warm_up; ++i) trainer.step();
        const std::uint64_t before = world.courier().sent_bytes();
        const Clock::time_point begin = Clock::now();
        for (int i = 0; i < steps; ++i) trainer.step();
        const double taken = seconds_between(begin, Clock::now()) / steps;
        const double bytes = double(world.courier().sent_bytes() - before) / steps;
        const double model = double(layout.updated_bytes);
        const double ideal = 2.0 * (world.size() - 1) / world.size() * model;
        double rates = 0; // of examples, each alone
        for (unsigned rank = 0; rank < world.size(); ++rank)
            rates += share / (seconds * (rank + 1 == world.size() ? slower : 1));
        fmt::print(
            "{} ranks, {:.1f} MB, towers of {:.1f} ms: {:.3f} ms a step, {:.3f} of the sum of their rates; "
            "rank 0 sends {:.3f} MB a step, {:.4f} of 2 (n-1)/n; shares {}\n",
            world.size(), model / 1e6, seconds * 1e3, taken * 1e3, global / taken / rates, bytes / 1e6,
            bytes / ideal, to_string(trainer.last_shares()));
    }
    return 0;
}

} // namespace
} // namespace towers

int main(int argc, char** argv) {
    try {
        return towers::run(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        std::_Exit(1);
    }
}
