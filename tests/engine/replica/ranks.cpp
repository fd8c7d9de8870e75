// Towers of several ranks, here threads of one process, against as many towers of one rank.
#include "backends/error.h"
#include "engine/clock.h"
#include "engine/ranks/courier.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/engine/train/overflows.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/simulated_device.h"
#include "tests/support/thread_transport.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {
namespace {

using Counts = std::vector<std::size_t>; ///< each rank's towers

/// The towers' names on so many ranks; on one process, they mean the same devices.
std::vector<std::string> names_of(const Counts& counts) {
    std::vector<std::string> names;
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
        for (std::size_t i = 0; i < counts[rank]; ++i) names.push_back(fmt::format("{}/cpu", rank));
    return names;
}

TrainerOptions options_of(const Counts& counts, unsigned global_batch) {
    TrainerOptions options = test::options_for(names_of(counts), global_batch);
    options.open.threads = 1;
    options.open_device = open_device;
    options.make_reducer = {};
    return options;
}

struct Job {
    Recipe recipe;
    TrainerOptions options;
    const DataSource& data;
    std::shared_ptr<const DataSource> tests = {};
    std::function<void(TrainerOptions&, unsigned rank)> adjust = {}; ///< a rank's options; may be empty
    std::shared_ptr<test::Wires> wires = {};                         ///< null: others
    double silence = 10;                                             ///< seconds, after which a rank is lost
};

/// Has rank 0's trainer do `drive`, and the others follow. Throws what any of them throws.
void on_ranks(const Counts& counts, const Job& job, const std::function<void(Trainer&)>& drive) {
    const auto size = unsigned(counts.size());
    const std::shared_ptr<test::Wires> wires = job.wires ? job.wires : test::make_wires(size);
    std::vector<std::unique_ptr<Courier>> couriers;
    for (unsigned rank = 0; rank < size; ++rank) {
        CourierOptions options;
        options.silence = std::chrono::duration<double>(job.silence);
        couriers.push_back(std::make_unique<Courier>(test::connect(wires, rank), options));
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

/// What a training leaves.
struct Left {
    std::vector<StepReport> reports;
    std::vector<TowerUse> use;
    TrainingState state;
    std::vector<float> gradients;
    std::optional<TestReport> test;
    std::string notices;
};

/// Goes on to this step.
Left go_on(Trainer& trainer, std::uint64_t steps, bool tests = false) {
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

Left train_alone(const Job& job, std::uint64_t steps, bool tests = false) {
    Trainer trainer(job.recipe, job.options, job.data, job.tests);
    return go_on(trainer, steps, tests);
}

Left train_on(const Counts& counts, const Job& job, std::uint64_t steps, bool tests = false,
              const TrainingState* from = nullptr) {
    Left left;
    on_ranks(counts, job, [&](Trainer& trainer) {
        if (from != nullptr) trainer.load(*from);
        left = go_on(trainer, steps, tests);
    });
    return left;
}

/// The largest difference, in parts of the largest value.
double difference(std::span<const float> a, std::span<const float> b) {
    REQUIRE(a.size() == b.size());
    double most = 0, largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
        most = std::max(most, std::abs(double(a[i]) - double(b[i])));
        largest = std::max(largest, std::abs(double(b[i])));
    }
    return most / largest;
}

/// Of each section of the state.
double state_difference(const StateLayout& layout, std::span<const float> a, std::span<const float> b) {
    double most = 0;
    for (const StateSection& section : layout.sections)
        if (section.range.bytes > 0)
            most = std::max(most, difference(part(a, section.range), part(b, section.range)));
    return most;
}

constexpr std::uint64_t steps = 10;
constexpr unsigned global = 24;

/// Even and uneven shares, later none for the last rank, none for the first, and all for one tower.
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

/// A network without kinks, so that rounding errors stay small.
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

/// Several buckets, each with a slice for every rank.
Recipe large_recipe() {
    return silu_recipe(R"({ name = "hidden", kind = "dense", units = 200, activation = "silu" },)", R"(
[optimizer]
kind = "momentum"
learning_rate = 0.01
)");
}

/// Weights and frequencies of classes that depend on the labels of the whole batch.
Recipe weighted_recipe() {
    Recipe recipe = silu_recipe("", R"(
[optimizer]
kind = "momentum"
learning_rate = 0.01
[[loss]]
class_weights = [0.1, 10, 1, 2, 3, 0.5, 7, 1, 4, 0.2]
smoothing = 0.1
)");
    recipe.sampling = Sampling::balanced;
    return recipe;
}

/// Whose images have partners on other ranks.
Recipe mixed_recipe() {
    return silu_recipe("", R"(
[optimizer]
kind = "momentum"
learning_rate = 0.01
[[loss]]
class_weights = [0.1, 10, 1, 2, 3, 0.5, 7, 1, 4, 0.2]
[mixing]
mixup = 0.5
cutmix = 1
draw = "example"
)");
}

/// One bucket, with a slice for every rank; Adam, moving averages, and a batch norm over the whole batch.
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

Recipe clipped_recipe() {
    Recipe clipped = test::smooth_recipe("\"batch\"");
    std::const_pointer_cast<Optimizer>(clipped.optimizer)->clip_norm = 0.5f;
    return clipped;
}

/// Has some towers follow scripts.
std::function<void(TrainerOptions&, unsigned)>
with_scripts(const Counts& counts, const std::vector<std::pair<std::size_t, test::Script>>& scripts) {
    return [=](TrainerOptions& options, unsigned rank) {
        const TowerRanks ranks{counts, {}};
        options.open_device = [=, opened = std::size_t(0)](std::string_view id,
                                                           const OpenOptions& open) mutable {
            std::unique_ptr<Device> device = open_device(id, open);
            const std::size_t tower = ranks.first(rank) + opened++;
            for (const auto& [its, script] : scripts)
                if (its == tower) device = std::make_unique<test::ScriptedDevice>(std::move(device), script);
            return device;
        };
    };
}

/// Gradients travel as bfloat16.
std::function<void(TrainerOptions&, unsigned)> rounding() {
    return [](TrainerOptions& options, unsigned) { options.ranks->links.wire = Wire::bf16; };
}

/// Ranks share hosts.
std::function<void(TrainerOptions&, unsigned)> on_hosts(const std::vector<unsigned>& hosts,
                                                        Wire wire = Wire::fp32) {
    return [=](TrainerOptions& options, unsigned) { options.ranks->links = {wire, hosts}; };
}

/// One after the other.
std::function<void(TrainerOptions&, unsigned)>
both(const std::function<void(TrainerOptions&, unsigned)>& first,
     const std::function<void(TrainerOptions&, unsigned)>& second) {
    return [=](TrainerOptions& options, unsigned rank) {
        first(options, rank);
        second(options, rank);
    };
}

/// Ranks with towers, and the hosts that they share.
struct Hosts {
    Counts counts;
    std::vector<unsigned> hosts;
};
const std::vector<Hosts> shared_hosts = {{{1, 1, 1, 1}, {0, 0, 2, 2}},
                                         {{1, 2, 1, 1}, {0, 1, 0, 1}},
                                         {{2, 1, 2}, {0, 0, 2}},
                                         {{1, 1, 1, 1, 1}, {0, 1, 1, 1, 0}}};

const std::vector<Counts> layouts = {{1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {2, 2}, {2, 1, 2}, {2, 2, 2, 2}};

} // namespace

TEST_CASE("ranks train as one process with as many towers, with shares that change and ranks without one") {
    const Dataset data = test::noise(50), tests = test::noise(30);
    for (const Recipe& recipe : {large_recipe(), clipped_recipe(), averaged_recipe()})
        for (const Counts& counts : layouts) {
            CAPTURE(recipe.name);
            CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
            Job job{recipe, options_of(counts, global), data, test::borrowed(tests)};
            job.options.learning_rate = recipe.optimizer->clip_norm ? 0.1 : 0.01;
            job.options.shares.recorded = changing_shares(counts);
            const Left alone = train_alone(job, steps, true), ranked = train_on(counts, job, steps, true);
            const StateLayout layout = layout_of(recipe);
            CHECK(state_difference(layout, ranked.state.state, alone.state.state) < 1e-5);
            CHECK(state_difference(layout, alone.state.state, initial_state(layout, 3)) > 1e-4);
            CHECK(difference(ranked.gradients, alone.gradients) < 1e-5);
            CHECK(ranked.state.step == steps);
            CHECK(ranked.state.examples == steps * global);
            for (std::uint64_t step = 0; step < steps; ++step) {
                CAPTURE(step);
                const StepReport &its = ranked.reports[step], &expected = alone.reports[step];
                CHECK(its.shares == expected.shares);
                CHECK(its.micro_batches == expected.micro_batches);
                CHECK(its.loss == doctest::Approx(expected.loss).epsilon(1e-5));
                CHECK(its.cross_entropy == doctest::Approx(expected.cross_entropy).epsilon(1e-5));
                REQUIRE(its.tower_losses.size() == expected.tower_losses.size());
                for (std::size_t i = 0; i < its.tower_losses.size(); ++i) {
                    CHECK(std::isnan(its.tower_losses[i]) == (its.shares[i] == 0));
                    if (its.shares[i] > 0)
                        CHECK(its.tower_losses[i] == doctest::Approx(expected.tower_losses[i]).epsilon(1e-5));
                }
            }
            for (std::size_t i = 0; i < ranked.use.size(); ++i) {
                CHECK(ranked.use[i].examples == alone.use[i].examples);
                CHECK(ranked.use[i].times.work > 0);
                CHECK(ranked.use[i].times.work < 100);
            }
            REQUIRE(ranked.test);
            CHECK(ranked.test->evaluation.examples == 30);
            CHECK(ranked.test->evaluation.loss_sum ==
                  doctest::Approx(alone.test->evaluation.loss_sum).epsilon(1e-5));
        }
}

TEST_CASE("ranks that share hosts train as one process, and each time to the same bits") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {large_recipe(), clipped_recipe(), averaged_recipe()})
        for (const auto& [counts, hosts] : shared_hosts) {
            CAPTURE(recipe.name);
            CAPTURE(fmt::format("{}", fmt::join(hosts, " ")));
            Job job{recipe, options_of(counts, global), data};
            job.options.learning_rate = recipe.optimizer->clip_norm ? 0.1 : 0.01;
            job.options.shares.recorded = changing_shares(counts);
            const Left alone = train_alone(job, steps);
            job.adjust = on_hosts(hosts);
            const Left ranked = train_on(counts, job, steps), again = train_on(counts, job, steps);
            const StateLayout layout = layout_of(recipe);
            CHECK(state_difference(layout, ranked.state.state, alone.state.state) < 1e-5);
            CHECK(difference(ranked.gradients, alone.gradients) < 1e-5);
            CHECK(again.state.state == ranked.state.state);
            CHECK(again.gradients == ranked.gradients);
            job.adjust = on_hosts(hosts, Wire::bf16);
            const Left rounded = train_on(counts, job, steps), rounded_again = train_on(counts, job, steps);
            CHECK(rounded_again.state.state == rounded.state.state);
            const double change = state_difference(layout, rounded.state.state, ranked.state.state);
            CHECK(change > 1e-7);
            CHECK(change < 1e-2);
        }
}

TEST_CASE("each byte goes to another host once for all ranks beside each other") {
    const Dataset data = test::noise(50);
    const Counts counts(4, 1);
    const double model = double(layout_of(large_recipe()).updated_bytes);
    const auto crossing = [&](const std::vector<unsigned>& hosts, Wire wire) {
        Job job{large_recipe(), options_of(counts, global), data};
        job.adjust = on_hosts(hosts, wire);
        job.wires = test::make_wires(4);
        std::size_t bytes = 0;
        const auto sent = [&] {
            std::size_t all = 0;
            for (unsigned from = 0; from < 4; ++from)
                for (unsigned to = 0; to < 4; ++to)
                    if (hosts[from] != hosts[to]) all += test::sent_bytes(*job.wires, from, to);
            return all;
        };
        on_ranks(counts, job, [&](Trainer& trainer) {
            trainer.step();
            const std::size_t before = sent();
            trainer.step();
            bytes = sent() - before;
        });
        return double(bytes) / model;
    };
    CHECK(crossing({0, 1, 2, 3}, Wire::fp32) == doctest::Approx(2 * 3).epsilon(0.03));
    CHECK(crossing({0, 0, 1, 1}, Wire::fp32) == doctest::Approx(2).epsilon(0.03));
    CHECK(crossing({0, 1, 0, 1}, Wire::fp32) == doctest::Approx(2).epsilon(0.03));
    CHECK(crossing({0, 0, 0, 1}, Wire::fp32) == doctest::Approx(2).epsilon(0.03));
    CHECK(crossing({0, 0, 1, 1}, Wire::bf16) == doctest::Approx(1.5).epsilon(0.03));
}

TEST_CASE("ranks of one tower each have the bits of one process, which adds up in the same order") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {test::small_recipe(), large_recipe(), averaged_recipe(), clipped_recipe(),
                                 weighted_recipe(), mixed_recipe()})
        for (const Counts& counts : {Counts{1, 1}, Counts{1, 1, 1, 1}}) {
            CAPTURE(recipe.name);
            CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
            Job job{recipe, options_of(counts, global), data};
            job.options.learning_rate = 0.01;
            job.options.shares.recorded = changing_shares(counts);
            const Left alone = train_alone(job, steps), ranked = train_on(counts, job, steps);
            CHECK(ranked.state.state == alone.state.state);
            CHECK(ranked.gradients == alone.gradients);
            for (std::uint64_t step = 0; step < steps; ++step)
                CHECK(ranked.reports[step].loss == doctest::Approx(alone.reports[step].loss).epsilon(1e-6));
        }
}

TEST_CASE("the same ranks give the same bits, also when they go on from a checkpoint") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {large_recipe(), clipped_recipe(), averaged_recipe()})
        for (const Counts& counts : {Counts{1, 1}, Counts{2, 1, 2}}) {
            CAPTURE(recipe.name);
            CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
            Job job{recipe, options_of(counts, global), data};
            job.options.learning_rate = 0.01;
            job.options.shares.recorded = changing_shares(counts);
            const Left whole = train_on(counts, job, steps), again = train_on(counts, job, steps);
            CHECK(whole.state.state == again.state.state);
            CHECK(whole.gradients == again.gradients);
            const TrainingState half = train_on(counts, job, steps / 2).state;
            const Left rest = train_on(counts, job, steps, false, &half);
            CHECK(rest.state.state == whole.state.state);
            CHECK(rest.state.examples == whole.state.examples);
            CHECK(rest.gradients == whole.gradients);
            for (const Counts& others : {Counts{1, 1, 1}, Counts{1, 2}}) {
                CAPTURE(fmt::format("{}", fmt::join(others, " ")));
                Job other{recipe, options_of(others, global), data};
                other.options.learning_rate = 0.01;
                const Left on_others = train_on(others, other, steps, false, &half);
                CHECK(state_difference(layout_of(recipe), on_others.state.state, whole.state.state) < 1e-5);
            }
        }
}

TEST_CASE("ranks that stream their data have the bits of resident data") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 2};
    for (const Recipe& recipe : {test::small_recipe(), weighted_recipe(), mixed_recipe()}) {
        CAPTURE(recipe.name);
        Job job{recipe, options_of(counts, global), data};
        job.options.shares.recorded = changing_shares(counts);
        job.options.feed = {Feeding::resident};
        const Left resident = train_on(counts, job, steps);
        job.options.feed = {Feeding::streamed, 1};
        CHECK(train_on(counts, job, steps).state.state == resident.state.state);
        const TrainingState half = train_on(counts, job, 5).state;
        CHECK(train_on(counts, job, steps, false, &half).state.state == resident.state.state);
    }
}

TEST_CASE("a tower of any rank that fails is dropped, and the others repeat what it spoiled") {
    using Verb = test::Failure::Verb;
    const Dataset data = test::noise(50);
    unsigned lost = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const Counts counts = layouts[random() % 5];
        const auto towers = names_of(counts).size();
        const std::size_t victim = random() % towers;
        CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
        CAPTURE(victim);
        Job job{random() % 2 == 0 ? test::small_recipe() : test::smooth_recipe("\"batch\""),
                options_of(counts, global), data};
        job.options.outlive_devices = true;
        job.options.learning_rate = 0.01;
        switch (random() % 3) {
        case 0:
            job.options.shares.recorded = changing_shares(counts);
            break;
        case 1:
            job.options.shares.automatic = true;
            break;
        default:
            break;
        }
        test::Failure failure{.verb = Verb(random() % 4)};
        const std::uint64_t failing_step = random() % 6;
        const unsigned calls = random() % 4;
        std::vector<unsigned> hosts(counts.size());
        for (unsigned& host : hosts) host = random() % 3;
        CAPTURE(fmt::format("{}", fmt::join(hosts, " ")));
        const auto links = on_hosts(hosts, random() % 2 == 0 ? Wire::bf16 : Wire::fp32);
        job.adjust = both(links, with_scripts(counts, {{victim, test::failing(failure)}}));
        std::vector<StepReport> reports;
        std::string notices;
        TrainingState state;
        on_ranks(counts, job, [&](Trainer& trainer) {
            for (std::uint64_t i = 0; i < 6; ++i) {
                if (i == failing_step) failure.calls_left = calls;
                reports.push_back(trainer.step());
                notices += reports.back().notice;
                if (failure.lost) CHECK(reports.back().shares[victim] == 0);
            }
            state = trainer.save();
            CHECK(trainer.has_lost(victim) == failure.lost);
        });
        CAPTURE(notices);
        lost += failure.lost;
        const auto told = [&](const char* what) {
            return notices.find(fmt::format("tower_{} ({}) {}", victim, job.options.towers[victim], what)) !=
                   std::string::npos;
        };
        CHECK(failure.lost ==
              (told("failed and is dropped, and the others repeat the step: ") || told("cannot take")));
        // As if nothing had failed
        job.adjust = links;
        job.options.shares = {};
        for (const StepReport& report : reports)
            job.options.shares.recorded.push_back({report.step, report.shares});
        CHECK(train_on(counts, job, 6).state.state == state.state);
    }
    CHECK(lost > 30); // some verbs are not called again
}

TEST_CASE("several towers fail, some in the same step, and at last the run ends with the state from before") {
    const Dataset data = test::noise(50);
    const Counts counts{2, 1, 1};
    for (const Recipe& recipe : {test::small_recipe(), test::smooth_recipe("\"batch\"")})
        for (const bool in_trial : {false, true}) {
            CAPTURE(recipe.name);
            CAPTURE(in_trial);
            std::vector<test::Failure> failures(4);
            Job job{recipe, options_of(counts, global), data};
            job.options.outlive_devices = true;
            job.options.shares.automatic = in_trial;
            std::vector<std::pair<std::size_t, test::Script>> scripts;
            for (std::size_t i = 0; i < 4; ++i) scripts.emplace_back(i, test::failing(failures[i]));
            job.adjust = with_scripts(counts, scripts);
            on_ranks(counts, job, [&](Trainer& trainer) {
                if (!in_trial) CHECK(trainer.step().notice.empty());
                failures[1].lost = failures[2].lost = true;
                const std::string notice = trainer.step().notice;
                CAPTURE(notice);
                CHECK(notice.find("tower_1 (0/cpu) failed and is dropped") != std::string::npos);
                CHECK(notice.find("tower_2 (1/cpu) failed and is dropped") != std::string::npos);
                CHECK(trainer.last_shares()[1] == 0);
                CHECK(trainer.last_shares()[2] == 0);
                failures[0].lost = true;
                CHECK(trainer.step().notice.find("tower_0 (0/cpu) failed and is dropped") !=
                      std::string::npos);
                CHECK(trainer.last_shares() == std::vector{0u, 0u, 0u, global});
                const std::vector<float> before = trainer.save().state;
                failures[3].lost = true;
                CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("refused"), DeviceError);
                CHECK(trainer.save().state == before);
            });
        }
}

TEST_CASE("a tower that fails in a test pass is dropped, and all examples are still predicted") {
    const Dataset data = test::noise(50), tests = test::noise(30);
    const Counts counts{1, 2};
    for (const std::size_t victim : {0, 2}) {
        CAPTURE(victim);
        Job job{test::small_recipe(), options_of(counts, global), data, test::borrowed(tests)};
        job.options.outlive_devices = true;
        test::Failure failure;
        job.adjust = with_scripts(counts, {{victim, test::failing(failure)}});
        on_ranks(counts, job, [&](Trainer& trainer) {
            trainer.step();
            const std::optional<TestReport> whole = trainer.test(false);
            failure.calls_left = 0;
            const std::optional<TestReport> repeated = trainer.test(false);
            REQUIRE(whole);
            REQUIRE(repeated);
            CHECK(whole->notice.empty());
            const std::string name = fmt::format("tower_{} ({})", victim, job.options.towers[victim]);
            CHECK(repeated->notice.find(name +
                                        " failed and is dropped, and the others repeat the test pass") == 0);
            CHECK(repeated->evaluation.examples == 30);
            CHECK(repeated->evaluation.correct == whole->evaluation.correct);
            CHECK(repeated->evaluation.loss_sum == doctest::Approx(whole->evaluation.loss_sum).epsilon(1e-6));
            CHECK(trainer.step().shares[victim] == 0);
        });
    }
}

TEST_CASE("a tower of another rank that does not answer is dropped") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {test::small_recipe(), test::smooth_recipe("\"batch\"")}) {
        CAPTURE(recipe.name);
        const Counts counts{1, 1};
        const auto silence = std::make_shared<test::Silence>();
        Job job{recipe, options_of(counts, global), data};
        job.options.outlive_devices = true;
        const auto scripts = with_scripts(counts, {{1, test::hanging(silence)}});
        job.adjust = [&](TrainerOptions& options, unsigned rank) {
            scripts(options, rank);
            if (rank == 1) options.patience = Patience(1e6, test::time_of(silence));
        };
        on_ranks(counts, job, [&](Trainer& trainer) {
            for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
            silence->begin({1e6, 1e6});
            const StepReport report = trainer.step();
            CHECK(silence->is_over());
            CHECK(report.notice.find("tower_1 (1/cpu) failed") == 0);
            CHECK(report.shares == std::vector{global, 0u});
            CHECK(trainer.step().notice.empty());
            silence->end();
            CHECK(trainer.step().notice.empty());
        });
    }
}

TEST_CASE("a device of another rank that is lost before the first step is dropped in it") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 2};
    for (const bool automatic : {false, true}) {
        CAPTURE(automatic);
        Job job{test::small_recipe(), options_of(counts, global), data};
        job.options.outlive_devices = true;
        job.options.shares.automatic = automatic;
        job.adjust = [](TrainerOptions& options, unsigned rank) {
            options.open_device = [rank, opened = 0](std::string_view id, const OpenOptions& open) mutable {
                if (rank == 1 && opened++ == 0) throw DeviceLost("gpu: does not work");
                return open_device(id, open);
            };
        };
        on_ranks(counts, job, [&](Trainer& trainer) {
            const StepReport report = trainer.step();
            CHECK(report.notice.find("tower_1 (1/cpu) failed and is dropped, and the others repeat the step: "
                                     "gpu: does not work") != std::string::npos);
            CHECK(report.shares[0] + report.shares[2] == global);
            CHECK(trainer.has_lost(1));
        });
    }
}

TEST_CASE("a test pass and a summary over ranks find what those of one process find") {
    const Dataset data = test::noise(50), tests = test::noise(30);
    const Counts counts{1, 2};
    Job job{averaged_recipe(), options_of(counts, global), data, test::borrowed(tests)};
    job.recipe.schedule = {.kind = Schedule::Kind::plateau, .factor = 0.5};
    for (const bool automatic : {false, true}) {
        CAPTURE(automatic);
        job.options.shares.automatic = automatic;
        Trainer alone(job.recipe, job.options, data, job.tests);
        on_ranks(counts, job, [&](Trainer& trainer) {
            std::optional<TestReport> found = trainer.test(true, nullptr, true),
                                      expected = alone.test(true, nullptr, true);
            REQUIRE(found); // before the first step
            CHECK(found->metrics.contains("auc_macro"));
            CHECK(found->metrics.size() == expected->metrics.size());
            for (const auto& [name, value] : expected->metrics) {
                CAPTURE(name);
                CHECK(found->metrics.at(name) == doctest::Approx(value).epsilon(1e-5));
            }
            CHECK(found->evaluation.examples == 30);
            CHECK(found->evaluation.loss_sum == doctest::Approx(expected->evaluation.loss_sum).epsilon(1e-6));
            const std::atomic<bool> stop = true;
            CHECK_FALSE(trainer.test(false, &stop));
            if (automatic) return;
            trainer.step();
            alone.step();
            // Rank 0 alone judges test passes, and all ranks follow.
            for (Trainer* each : {&trainer, &alone}) {
                found->step = 1;
                CHECK(each->judge(*found, all_metrics()[0]).empty());
                found->step = 2;
                CHECK(each->judge(*found, all_metrics()[0]).starts_with("the learning rate is "));
            }
            CHECK(trainer.step().learning_rate == job.options.learning_rate / 2);
            alone.step();
            CHECK(trainer.step().loss == doctest::Approx(alone.step().loss).epsilon(1e-5));
            const std::vector<Histogram> its = trainer.summarize(data), same = alone.summarize(data);
            REQUIRE(its.size() == same.size());
            for (std::size_t i = 0; i < its.size(); ++i) {
                CAPTURE(its[i].name);
                CHECK(its[i].name == same[i].name);
                CHECK(its[i].count == same[i].count);
                CHECK(its[i].squares == doctest::Approx(same[i].squares).epsilon(1e-4));
            }
        });
    }
}

TEST_CASE("a rank that is cut off ends the others' waiting, at whatever moment of a step") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 2, 1};
    for (const unsigned cut : {0u, 1u, 2u}) {
        CAPTURE(cut);
        Job job{averaged_recipe(), options_of(counts, global), data};
        if (cut > 0) job.adjust = on_hosts({0, 1, 1});
        job.wires = test::make_wires(3);
        job.silence = 0.8;
        const auto begin = Clock::now();
        std::thread cutter([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            test::cut(*job.wires, cut);
        });
        std::optional<PeerGone> gone;
        try {
            on_ranks(counts, job, [&](Trainer& trainer) {
                while (trainer.steps_done() < 1'000'000) trainer.step();
            });
        } catch (const PeerGone& its) {
            gone = its;
        }
        cutter.join();
        REQUIRE(gone);
        CHECK(seconds_since(begin) < 5);
    }
}

TEST_CASE("a step that diverges names its tower on its rank and leaves the state") {
    // The second example of a batch is bright, and only its loss is not finite.
    const Dataset data = test::pixels({1, 255});
    for (const Counts& counts : {Counts{1, 1}, Counts{2, 2}}) {
        CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
        const auto towers = unsigned(names_of(counts).size());
        Job job{test::pixel_recipe(), test::in_order(names_of(counts), towers), data};
        job.options.open_device = open_device;
        job.options.shares.recorded = {{0, std::vector<unsigned>(towers, 1)}};
        const Dataset pixels = test::pixels(towers == 2 ? std::vector<std::uint8_t>{0, 255}
                                                        : std::vector<std::uint8_t>{0, 0, 0, 255});
        const Job on_pixels{job.recipe, job.options, pixels};
        on_ranks(counts, on_pixels, [&](Trainer& trainer) {
            TrainingState state{.state = initial_state(trainer.layout(), 3)};
            part(std::span(state.state), trainer.layout().find("logits/weights").range)[0] = 3e38f;
            trainer.load(state);
            try {
                trainer.step();
                FAIL_CHECK("it did not diverge");
            } catch (const Diverged& diverged) {
                const std::string message = diverged.what();
                CAPTURE(message);
                CHECK(message.find(fmt::format("the loss of tower_{} (1/cpu)", towers - 1)) !=
                      std::string::npos);
                CHECK(diverged.of.tower == towers - 1);
                CHECK(diverged.of.batch.examples.size() == 1);
                CHECK(diverged.of.batch.examples[0].record == towers - 1);
            }
            CHECK(trainer.save().state == state.state);
            CHECK(trainer.steps_done() == 0);
        });
    }
}

TEST_CASE("a step whose scaled gradients overflow on one rank is repeated by all") {
    const Dataset data = test::one_bright_step();
    const Counts counts{1, 1};
    Job job{test::pixel_recipe(), test::in_order(names_of(counts)), data};
    job.options.open_device = open_device;
    job.options.loss_scale = LossScale{test::high};
    Trainer alone(job.recipe, job.options, job.data);
    const test::Run expected = test::run_on(alone, test::steps, false);
    test::Run found;
    on_ranks(counts, job, [&](Trainer& trainer) { found = test::run_on(trainer, test::steps, true); });
    CHECK(found.scales == expected.scales);
    CHECK(found.scales.back() < test::high);
    CHECK(found.losses == expected.losses);
    CHECK(found.state.state == expected.state.state);
    CHECK(found.state.loss_scale == expected.state.loss_scale);
}

TEST_CASE("ranks whose gradients travel as bfloat16 train nearly as others, the same in each repetition") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {large_recipe(), clipped_recipe(), averaged_recipe()})
        for (const Counts& counts : {Counts{1, 1}, Counts{1, 1, 1}, Counts{2, 1, 2}}) {
            CAPTURE(recipe.name);
            CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
            Job job{recipe, options_of(counts, global), data};
            job.options.learning_rate = 0.01;
            job.options.shares.recorded = changing_shares(counts);
            const Left exact = train_on(counts, job, steps);
            job.adjust = rounding();
            const Left rounded = train_on(counts, job, steps), again = train_on(counts, job, steps);
            CHECK(again.state.state == rounded.state.state);
            const double change = state_difference(layout_of(recipe), rounded.state.state, exact.state.state);
            CHECK(change > 1e-7);
            CHECK(change < 1e-2);
            CHECK(rounded.reports.back().loss == doctest::Approx(exact.reports.back().loss).epsilon(1e-3));
        }
}

TEST_CASE("ranks on one host send each other float32") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 1};
    Job job{large_recipe(), options_of(counts, global), data};
    const Left exact = train_on(counts, job, steps);
    job.adjust = on_hosts({0, 0}, Wire::bf16);
    CHECK(train_on(counts, job, steps).state.state == exact.state.state);
}

TEST_CASE("bfloat16 leaves three quarters of the bytes") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 1};
    const auto bytes_of = [&](const std::function<void(TrainerOptions&, unsigned)>& adjust) {
        Job job{large_recipe(), options_of(counts, global), data};
        job.adjust = adjust;
        std::uint64_t bytes = 0;
        on_ranks(counts, job, [&](Trainer& trainer) {
            const Courier& courier = trainer.options().ranks->courier;
            trainer.step();
            const std::uint64_t before = courier.sent_bytes();
            trainer.step();
            bytes = courier.sent_bytes() - before;
        });
        return double(bytes);
    };
    const double half_of_model = double(layout_of(large_recipe()).updated_bytes) / 2;
    const double exact = bytes_of({}), rounded = bytes_of(rounding());
    CHECK(exact - rounded == doctest::Approx(half_of_model / 2).epsilon(0.03)); // slices are not quite equal
    CHECK(rounded < 0.77 * exact);
}

TEST_CASE(
    "a step of ranks that is repeated with a smaller loss scale loses nothing that travels as bfloat16") {
    const Dataset data = test::one_bright_step();
    const Counts counts{1, 1};
    const auto run_with = [&](float scale) {
        Job job{test::pixel_recipe(), test::in_order(names_of(counts)), data};
        job.options.open_device = open_device;
        job.options.loss_scale = LossScale{scale};
        job.adjust = rounding();
        test::Run found;
        on_ranks(counts, job, [&](Trainer& trainer) { found = test::run_on(trainer, test::steps, true); });
        return found;
    };
    const test::Run repeated = run_with(test::high), smooth = run_with(repeated.scales.back());
    CHECK(repeated.scales.back() < test::high);
    CHECK(smooth.scales.front() == smooth.scales.back());
    CHECK(repeated.state.state == smooth.state.state);
    Job exact{test::pixel_recipe(), test::in_order(names_of(counts)), data};
    exact.options.open_device = open_device;
    exact.options.loss_scale = LossScale{test::high};
    Trainer alone(exact.recipe, exact.options, exact.data);
    CHECK(test::run_on(alone, test::steps, false).state.state != repeated.state.state);
}

TEST_CASE("rank 0 learns how long the towers of other ranks waited for those beside them") {
    const test::VirtualClock clock;
    const Dataset data = test::noise(200);
    const Counts counts{1, 3};
    Job job{test::small_recipe({4, 4, 4, 4}), options_of(counts, 24), data};
    job.options.shares.recorded = {{0, {8, 15, 1, 0}}};
    job.adjust = [](TrainerOptions& options, unsigned) {
        options.open_device = [](std::string_view id, const OpenOptions&) {
            return std::make_unique<test::SimulatedDevice>(std::string(id),
                                                           [](unsigned examples) { return 1e-3 * examples; });
        };
    };
    const Left left = train_on(counts, job, 10);
    CHECK(left.use[1].times.others < 0.05);
    CHECK(left.use[2].times.others > 0.1);
    CHECK(left.use[3].times.others > 0.12);
    CHECK(left.use[3].times.work == 0);
}

TEST_CASE("automatic shares follow the speeds of the ranks") {
    const test::VirtualClock clock;
    const Dataset data = test::noise(200);
    const Counts counts{1, 1};
    Job job{test::small_recipe({4, 4, 4, 4}), options_of(counts, 120), data};
    job.options.shares.automatic = true;
    job.adjust = [](TrainerOptions& options, unsigned rank) {
        options.open_device = [rank](std::string_view id, const OpenOptions&) {
            return std::make_unique<test::SimulatedDevice>(
                std::string(id), [rank](unsigned examples) { return (rank == 1 ? 3e-3 : 1e-3) * examples; });
        };
    };
    const Left left = train_on(counts, job, 30);
    CHECK(left.notices.starts_with("a short trial of each tower gives shares of "));
    const std::vector<unsigned>& shares = left.reports.back().shares;
    CHECK(shares[0] + shares[1] == 120);
    CHECK(shares[1] >= 29);
    CHECK(shares[1] <= 31);
}

} // namespace towers
