// Towers of several ranks, here threads of one process, against as many towers of one rank.
#include "engine/ranks/courier.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/engine/replica/rank_threads.h"
#include "tests/engine/train/overflows.h"
#include "tests/support/networks.h"
#include "tests/support/simulated_device.h"
#include "tests/support/thread_transport.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {
namespace {

using test::averaged_recipe, test::changing_shares, test::Counts, test::global, test::go_on, test::Job,
    test::layouts, test::Left, test::names_of, test::on_hosts, test::on_ranks, test::options_of,
    test::silu_recipe, test::train_on;

Left train_alone(const Job& job, std::uint64_t steps, bool tests = false) {
    Trainer trainer(job.recipe, job.options, job.data, job.tests);
    return go_on(trainer, steps, tests);
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

Recipe clipped_recipe() {
    Recipe clipped = test::smooth_recipe("\"batch\"");
    std::const_pointer_cast<Optimizer>(clipped.optimizer)->clip_norm = 0.5f;
    return clipped;
}

/// Gradients travel as bfloat16.
test::Adjust rounding() {
    return [](TrainerOptions& options, unsigned) { options.ranks->links.wire = Wire::bf16; };
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
    const auto bytes_of = [&](const test::Adjust& adjust) {
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
