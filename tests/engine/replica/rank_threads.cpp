#include "tests/engine/replica/rank_threads.h"

#include "engine/ranks/courier.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/networks.h"

#include <barrier>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <numeric>
#include <string_view>
#include <thread>

namespace towers::test {

std::vector<std::string> names_of(const Counts& counts) {
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
        for (std::size_t i = 0; i < counts[rank]; ++i) names.push_back(fmt::format("{}/cpu", rank));
    return names;
}

TrainerOptions options_of(const Counts& counts, unsigned global_batch) {
    TrainerOptions options = options_for(names_of(counts), global_batch);
    options.open.threads = 1;
    options.open_device = open_device;
    options.make_reducer = {};
    return options;
}

std::vector<SharesFrom> changing_shares(const Counts& counts) {
    const std::size_t towers = std::accumulate(counts.begin(), counts.end(), std::size_t(0));
    const auto deal = [&](std::size_t begin, std::size_t end, unsigned examples) {
        std::vector<unsigned> shares(towers);
        for (unsigned i = 0; i < examples; ++i) ++shares[begin + i % (end - begin)];
        return shares;
    };
    std::vector<unsigned> uneven = deal(0, towers, 2 * unsigned(towers));
    uneven[towers / 2] += global - 2 * unsigned(towers);
    std::vector<unsigned> one(towers);
    one[towers - 1] = global;
    return {{0, deal(0, towers, global)},
            {2, uneven},
            {4, deal(0, towers - counts.back(), global)},
            {6, deal(counts.front(), towers, global)},
            {8, one},
            {9, uneven}};
}

Recipe silu_recipe(const std::string& layers, const std::string& training) {
    return parse_recipe("silu",
                        fmt::format(R"(
[input]
shape = [24, 24, 3]
classes = 10
[network]
layers = [
  {{ name = "conv", kind = "conv2d", filters = 32, kernel = 5, stride = 3, activation = "silu" }},
  {}
  {{ name = "logits", kind = "dense", units = 10, weight_decay = 0.01 }},
]
[pipeline]
kind = "tutorial"
{}
[training]
batch = 24
steps = 10
)",
                                    layers, training),
                        "silu.toml");
}

Recipe averaged_recipe() {
    return silu_recipe(R"(
  { name = "norm", kind = "batch_norm", group = "batch", activation = "silu" },
  { kind = "global_average_pool" },
  { name = "hidden", kind = "dense", units = 64, activation = "silu" },)",
                       R"(
[optimizer]
kind = "adam"
learning_rate = 1e-3
epsilon = 1e-3
[averages]
decay = 0.9
)");
}

Adjust with_scripts(const Counts& counts, const std::vector<std::pair<std::size_t, Script>>& scripts) {
    return [=](TrainerOptions& options, unsigned rank) {
        const TowerRanks ranks{counts, {}};
        options.open_device = [=, opened = std::size_t(0)](std::string_view id,
                                                           const OpenOptions& open) mutable {
            std::unique_ptr<Device> device = open_device(id, open);
            const std::size_t tower = ranks.first(rank) + opened++;
            for (const auto& [its, script] : scripts)
                if (its == tower) device = std::make_unique<ScriptedDevice>(std::move(device), script);
            return device;
        };
    };
}

Adjust on_hosts(const std::vector<unsigned>& hosts, Wire wire) {
    return [=](TrainerOptions& options, unsigned) { options.ranks->links = {wire, hosts}; };
}

Adjust both(const Adjust& first, const Adjust& second) {
    return [=](TrainerOptions& options, unsigned rank) {
        first(options, rank);
        second(options, rank);
    };
}

void on_ranks(const Counts& counts, const Job& job, const std::function<void(Trainer&)>& drive) {
    const auto size = unsigned(counts.size());
    const std::shared_ptr<Wires> wires = job.wires ? job.wires : make_wires(size);
    std::vector<std::unique_ptr<Courier>> couriers;
    for (unsigned rank = 0; rank < size; ++rank) {
        CourierOptions options;
        options.silence = std::chrono::duration<double>(job.silence);
        couriers.push_back(std::make_unique<Courier>(connect(wires, rank), options));
    }
    std::vector<std::exception_ptr> failures(size);
    std::barrier end(size);
    const auto take_part = [&](unsigned rank, const std::function<void(Trainer&)>& use) {
        std::optional<Trainer> trainer;
        try {
            TrainerOptions options = job.options;
            options.ranks.emplace(TrainerOptions::Ranks{
                *couriers[rank], TowerRanks{counts, std::vector<std::string>(size, "host")}});
            if (job.adjust) job.adjust(options, rank);
            trainer.emplace(job.recipe, options, job.data, job.tests);
            use(*trainer);
            trainer.reset();
        } catch (...) {
            failures[rank] = std::current_exception();
            couriers[rank]->tell_failure(1, "a rank has failed");
        }
        end.arrive_and_wait(); // others may still read what it sends
    };
    std::vector<std::thread> others;
    for (unsigned rank = 1; rank < size; ++rank)
        others.emplace_back(take_part, rank, [](Trainer& trainer) { trainer.follow(nullptr); });
    take_part(0, drive);
    for (std::thread& other : others) other.join();
    for (const auto& courier : couriers) courier->close();
    std::exception_ptr gone;
    for (const std::exception_ptr& failure : failures) try {
            if (failure) std::rethrow_exception(failure);
        } catch (const PeerGone&) { // because of another failure
            gone = failure;
        }
    if (gone) std::rethrow_exception(gone);
}

Left go_on(Trainer& trainer, std::uint64_t steps, bool tests) {
    Left left;
    while (trainer.steps_done() < steps) {
        left.reports.push_back(trainer.step(trainer.steps_done() + 1 < steps));
        left.notices += left.reports.back().notice;
    }
    left.use = trainer.use();
    left.state = trainer.save();
    left.gradients = trainer.gradients();
    if (tests) left.test = trainer.test(false);
    return left;
}

Left train_on(const Counts& counts, const Job& job, std::uint64_t steps, bool tests,
              const TrainingState* from) {
    Left left;
    on_ranks(counts, job, [&](Trainer& trainer) {
        if (from != nullptr) trainer.load(*from);
        left = go_on(trainer, steps, tests);
    });
    return left;
}

} // namespace towers::test
