// Shares in micro-batches, because the user asks for them or a device has little memory.
#include "engine/plan/micro_batches.h"

#include "backends/error.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <random>
#include <span>

namespace towers {
namespace {

void wrap_in_small(TrainerOptions& options, std::size_t tower, test::MemoryLimit& limits) {
    test::wrap_tower(options, tower, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::limiting(limits));
    });
}

/// The peak memory of a step.
std::uint64_t peak_of(const Recipe& recipe, TrainerOptions options, const Dataset& data) {
    test::MemoryLimit limits;
    wrap_in_small(options, 0, limits);
    Trainer(recipe, options, data).step();
    return limits.peak;
}

/// The median over steps of the distance of a trainer's gradients from another's of the same states. The
/// median: see gradient_distance() of towers.cpp.
double gradient_distance(Trainer& trainer, Trainer& other) {
    std::vector<double> distances;
    for (int i = 0; i < 3; ++i) {
        trainer.load(other.save());
        CHECK(trainer.step().loss == doctest::Approx(other.step().loss).epsilon(1e-4));
        distances.push_back(test::relative_norm(trainer.gradients(), other.gradients()));
    }
    std::ranges::sort(distances);
    return distances[distances.size() / 2];
}

} // namespace

TEST_CASE("a share is divided into as few micro-batches as possible, of whole groups and about equal") {
    using Sizes = std::vector<unsigned>;
    CHECK(micro_batches(100, 1, 60) == Sizes{50, 50});
    CHECK(micro_batches(100, 1, 100) == Sizes{100});
    CHECK(micro_batches(100, 1, 1000) == Sizes{100});
    CHECK(micro_batches(101, 1, 50) == Sizes{34, 34, 33});
    CHECK(micro_batches(3, 1, 1) == Sizes{1, 1, 1});
    CHECK(micro_batches(160, 32, 100) == Sizes{96, 64});
    CHECK(micro_batches(160, 32, 63) == Sizes(5, 32));
    for (const unsigned group : {1u, 3u})
        for (unsigned groups = 1; groups <= 20; ++groups)
            for (unsigned most = group; most <= 21 * group; ++most) {
                const Sizes sizes = micro_batches(groups * group, group, most);
                CHECK(std::reduce(sizes.begin(), sizes.end()) == groups * group);
                CHECK(std::ranges::is_sorted(sizes, std::greater()));
                CHECK(sizes.front() <= most);
                CHECK(sizes.front() - sizes.back() <= group);
                CHECK((sizes.size() - 1) * (most / group) < groups);
                for (const unsigned size : sizes) CHECK(size % group == 0);
            }
}

TEST_CASE("micro-batches are as large as memory allows, a group when nothing fits") {
    // 1000 bytes plus 10 per example computed at once; 500 examples at most
    const auto needed = [](unsigned most) {
        return most > 500 ? std::nullopt : std::optional<std::uint64_t>(1000 + 10 * most);
    };
    const auto fit = [&](unsigned share, unsigned group, std::uint64_t room) {
        return largest_that_fits(share, group, [&](unsigned most) {
            const std::optional<std::uint64_t> bytes = needed(most);
            return bytes && *bytes <= room;
        });
    };
    CHECK(fit(100, 1, 2000) == 100);
    CHECK(fit(100, 1, 1999) == 50);
    CHECK(fit(100, 1, 1600) == 50);
    CHECK(fit(100, 1, 1499) == 34);
    CHECK(fit(100, 1, 1020) == 2);
    CHECK(fit(100, 1, 1010) == 1);
    CHECK(fit(100, 1, 0) == 1);
    CHECK(fit(96, 32, 1700) == 64);
    CHECK(fit(96, 32, 1639) == 32);
    CHECK(fit(96, 32, 0) == 32);
    CHECK(fit(32, 32, 0) == 32);
    CHECK(fit(1200, 1, UINT64_MAX) == 400);
    for (unsigned share = 1; share < 60; ++share)
        for (std::uint64_t room = 1010; room < 1700; room += 7) {
            const unsigned most = fit(share, 1, room);
            const std::size_t count = micro_batches(share, 1, most).size();
            CHECK(*needed(most) <= room);
            if (count > 1) CHECK(*needed((share + unsigned(count) - 2) / (unsigned(count) - 1)) > room);
        }
}

TEST_CASE("micro-batches give the gradients and the loss of a share that is computed at once") {
    const Dataset data = test::noise(50);
    struct Case {
        Recipe recipe;
        unsigned most;
        std::size_t pieces;
    };
    const std::string dropout = R"({ kind = "dropout", keep = 0.6 },)";
    const std::vector<Case> cases{{test::small_recipe(), 6, 1},
                                  {test::small_recipe(), 4, 2},
                                  {test::smooth_recipe("2"), 2, 3},
                                  {test::smooth_recipe("1", dropout), 1, 6}};
    for (const Case& each : cases)
        for (const std::string& id : test::device_ids()) {
            CAPTURE(each.recipe.name);
            CAPTURE(id);
            CAPTURE(each.pieces);
            TrainerOptions options = test::options_for({id}, 6);
            Trainer whole(each.recipe, options, data);
            options.micro_batch = each.most;
            Trainer split(each.recipe, options, data);
            CHECK(split.facts(0).at_once.micro_batches == each.pieces);
            CHECK(gradient_distance(split, whole) < (each.pieces == 1 ? 1e-30 : 1e-5));
        }
}

TEST_CASE("random shares in random micro-batches train as one tower does, and again to the same bits") {
    const Dataset data = test::noise(50);
    const Recipe recipe = test::smooth_recipe("2", R"({ kind = "dropout", keep = 0.8 },)");
    const auto train = [&](const TrainerOptions& options, std::uint64_t steps, unsigned& pieces) {
        Trainer trainer(recipe, options, data);
        for (std::uint64_t i = 0; i < steps; ++i) {
            trainer.step();
            for (std::size_t tower = 0; tower < trainer.tower_count(); ++tower)
                pieces = std::max(pieces, trainer.facts(tower).at_once.micro_batches);
        }
        return trainer.save();
    };
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        const std::uint64_t steps = id == "cpu" ? 200 : 20; // software drivers are slow
        unsigned most = 1;
        const TrainingState alone = train(test::options_for({"cpu"}, 24), steps, most);
        CHECK(most == 1);
        const auto options = [&] {
            TrainerOptions made = test::options_for({"cpu", id, "cpu"}, 24);
            made.open_device = [opened = 0u](std::string_view name, const OpenOptions& open) mutable {
                // It says at random that it is almost full, so that shares are split at random.
                return std::make_unique<test::ScriptedDevice>(
                    test::reuse_device(name, open),
                    test::Script{.free_memory = [random = std::mt19937(opened++)](std::uint64_t) mutable {
                        return std::uint64_t(random() % 3 * (random() % 64) << 14);
                    }});
            };
            std::mt19937 random(11);
            for (std::uint64_t step = 0; step < steps; ++step) {
                std::vector<unsigned> shares(3);
                for (int unit = 0; unit < 12; ++unit) shares[std::min(random() % 3, random() % 3)] += 2;
                made.shares.recorded.push_back({step, shares});
            }
            return made;
        };
        const TrainingState first = train(options(), steps, most);
        CHECK(most > 3);
        CHECK(test::relative_norm(first.state, alone.state) < 1e-4);
        CHECK(first.state == train(options(), steps, most).state);
    }
}

TEST_CASE("a tower that reports its free memory never gets a refusal, and one that does not adapts") {
    const Dataset data = test::noise(12); // a small part of the memory
    const Recipe recipe = test::small_recipe();
    TrainerOptions options = test::options_for({"cpu"}, 24);
    const std::uint64_t most = peak_of(recipe, options, data);
    Trainer whole(recipe, options, data);
    options.micro_batch = 1;
    const std::uint64_t least = peak_of(recipe, options, data);
    options.micro_batch = 0;
    CHECK(2 * least < most);
    for (const bool told : {true, false})
        for (const double part : {0.1, 0.3, 0.6, 1.2}) {
            CAPTURE(told);
            CAPTURE(part);
            test::MemoryLimit limits{.bytes = least + std::uint64_t(part * double(most - least)),
                                     .told = told};
            wrap_in_small(options, 0, limits);
            Trainer trainer(recipe, options, data);
            const AtOnce at_once = trainer.facts(0).at_once;
            CAPTURE(to_string(at_once));
            CHECK((at_once.micro_batches == 1) == (part > 1));
            CHECK((limits.refusals > 0) == (!told && part < 1));
            if (part < 1)
                CHECK(to_string(at_once).find(told ? ", because all at once need "
                                                   : ", because more were refused: no memory for ") !=
                      std::string::npos);
            CHECK(gradient_distance(trainer, whole) < 1e-5);
        }
}

TEST_CASE("a run that goes on takes its recorded micro-batches again, whatever memory is free then") {
    const Dataset data = test::noise(50);
    const Recipe recipe = test::small_recipe();
    for (const std::size_t towers : {1, 2}) { // with two, the second one's memory is small
        CAPTURE(towers);
        const auto options_with = [&](test::MemoryLimit& limits, const std::vector<SharesFrom>& recorded) {
            TrainerOptions options =
                test::options_for(std::vector<std::string>(towers, "cpu"), unsigned(24 * towers));
            options.shares.recorded = recorded;
            wrap_in_small(options, towers - 1, limits);
            return options;
        };
        const TrainerOptions alone = test::options_for({"cpu"}, 24);
        const std::uint64_t enough = peak_of(recipe, alone, data);
        const auto go_on = [&](const TrainingState& from, test::MemoryLimit limits,
                               const std::vector<SharesFrom>& recorded, AtOnce& at_once) {
            Trainer trainer(recipe, options_with(limits, recorded), data);
            trainer.load(from);
            for (int i = 0; i < 3; ++i) trainer.step();
            at_once = trainer.facts(towers - 1).at_once;
            return trainer.save().state;
        };

        test::MemoryLimit limits{.bytes = enough * 6 / 10};
        Trainer first(recipe, options_with(limits, {}), data);
        const StepReport report = first.step();
        const TrainingState before = first.save();
        const unsigned pieces = first.facts(towers - 1).at_once.micro_batches;
        REQUIRE(pieces > 1);
        REQUIRE(first.taken().micro_batches.back() == pieces);
        CHECK(report.micro_batches == first.taken().micro_batches);
        for (int i = 0; i < 3; ++i) first.step();
        const std::vector<float> undisturbed = first.save().state;

        const std::vector<SharesFrom> recorded{first.taken()};
        AtOnce at_once;
        CHECK(go_on(before, {}, recorded, at_once) == undisturbed);
        CHECK(at_once.micro_batches == pieces);
        CHECK(go_on(before, {.bytes = enough * 2}, {{0, first.taken().shares}}, at_once) != undisturbed);
        CHECK(at_once.micro_batches == 1); // an early version's record, without micro-batches
        CHECK(go_on(before, {.bytes = enough * 6 / 10, .told = false}, recorded, at_once) == undisturbed);

        for (const bool told : {true, false}) {
            CAPTURE(told);
            const std::vector<float> other =
                go_on(before, {.bytes = enough * 4 / 10, .told = told}, recorded, at_once);
            CHECK(at_once.micro_batches > pieces);
            CAPTURE(to_string(at_once));
            CHECK(to_string(at_once).ends_with(
                fmt::format("; {} were recorded, so the last bits of the results change", pieces)));
            CHECK(test::relative_norm(other, undisturbed) < 1e-4);
        }
    }
}

TEST_CASE("a refusal for another reason than memory is not retried") {
    unsigned asked = 0;
    TrainerOptions options = test::options_for({"cpu"}, 24);
    test::wrap_tower(options, 0, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device),
                                                      test::Script{.record = [&](std::vector<Command>&) {
                                                          ++asked;
                                                          throw DeviceError("no such kernel");
                                                      }});
    });
    CHECK_THROWS_WITH_AS(Trainer(test::small_recipe(), options, test::noise(12)), "no such kernel",
                         DeviceError);
    CHECK(asked == 1);
}

TEST_CASE("one of several towers computes a share that does not fit in micro-batches, and the run says so") {
    const Dataset data = test::noise(50);
    const Recipe recipe = test::small_recipe();
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 24);
    options.shares.recorded = {{0, {20, 4}}, {1, {4, 20}}, {2, {2, 22}}, {3, {20, 4}}};
    test::MemoryLimit limits{.bytes = peak_of(recipe, test::options_for({"cpu"}, 14), data)};
    wrap_in_small(options, 1, limits);
    Trainer trainer(recipe, options, data);
    CHECK(trainer.step().notice.empty());
    const std::string notice = trainer.step().notice;
    CAPTURE(notice);
    CHECK(notice.find("tower_1 (cpu): 2 micro-batches of up to 10 examples, because all at once need ") == 0);
    for (int i = 0; i < 2; ++i) CHECK(trainer.step().notice.empty()); // two again, then one
    CHECK(trainer.facts(1).at_once.micro_batches == 1);
    CHECK(limits.refusals == 0);
}

TEST_CASE("with a batch norm over the whole batch, too little memory is an error") {
    const Dataset data = test::noise(50);
    const Recipe recipe = test::smooth_recipe("\"batch\"");
    TrainerOptions options = test::options_for({"cpu"}, 40);
    test::MemoryLimit limits{.bytes = peak_of(recipe, options, data) / 2};
    wrap_in_small(options, 0, limits);
    CHECK_THROWS_WITH_AS(Trainer(recipe, options, data),
                         doctest::Contains("the batch norm of layer 'norm' takes the whole global batch"),
                         DeviceError);
    options.micro_batch = 20;
    CHECK_THROWS_WITH_AS(Trainer(recipe, options, data),
                         doctest::Contains("--micro-batch 20: the batch norm of layer 'norm'"), UsageError);
    options.micro_batch = 3;
    CHECK_THROWS_WITH_AS(Trainer(test::smooth_recipe("4"), options, data),
                         "--micro-batch 3: batch norm takes groups of 4 examples; give at least that many",
                         UsageError);
}

} // namespace towers
