// The scratch memory of a step's launches on cards, which a tower plans with like all other memory.
#include "backends/error.h"
#include "engine/tuning/tuning.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <cmath>
#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <vector>

namespace towers {
namespace {

/// Each of its convolutions can be computed by Winograd's method, which needs more memory than all the rest.
Recipe wide_recipe(const std::string& group) {
    return test::smooth_recipe(group, R"({ kind = "conv2d", filters = 32, kernel = 3, activation = "silu" },
  { kind = "conv2d", filters = 32, kernel = 3 },)");
}

void limit(TrainerOptions& options, test::MemoryLimit& memory) {
    test::wrap_tower(options, 0, [&](std::unique_ptr<Device> device) {
        return std::make_unique<test::ScriptedDevice>(std::move(device), test::limiting(memory));
    });
}

/// The peak memory of two steps, of which the second is submitted while the first one runs.
std::uint64_t peak_of(const Recipe& recipe, TrainerOptions options, const Dataset& data) {
    test::MemoryLimit memory;
    limit(options, memory);
    Trainer trainer(recipe, options, data);
    trainer.step(true);
    trainer.step();
    return memory.peak;
}

/// Options with which a card takes Winograd's method or does not.
struct OnCard {
    TrainerOptions winograd, exact;
    std::uint64_t most, least; ///< peak memory with each
    /// Parts of sums, which wide cards have many of, need scratch memory too.
    test::LimitConfigs limits{{.splits = 1, .winograd_tile = 4}};

    OnCard(const std::string& id, unsigned examples, const Recipe& recipe, const Dataset& data)
        : winograd(test::options_for({id}, examples)), exact(winograd) {
        exact.open.exact_products = true;
        most = peak_of(recipe, winograd, data);
        least = peak_of(recipe, exact, data);
    }
};

template<class Function>
void on_every_card(unsigned examples, const Recipe& recipe, const Dataset& data, const Function& function) {
    for (const std::string& id : test::device_ids()) {
        const DeviceKind kind = test::device(id).info().kind;
        if (kind == DeviceKind::cpu || kind == DeviceKind::software) continue;
        CAPTURE(id);
        OnCard card(id, examples, recipe, data);
        REQUIRE(card.most > card.least);
        function(card);
    }
}

} // namespace

TEST_CASE("a share is divided if there is no room for the scratch memory of its launches") {
    const Dataset data = test::noise(24);
    const Recipe recipe = wide_recipe("1");
    on_every_card(12, recipe, data, [&](OnCard& card) {
        const std::uint64_t between = (card.least + card.most) / 2;
        test::MemoryLimit memory{.bytes = between * 10 / 9}; // of which a tenth is left
        limit(card.exact, memory);
        CHECK(Trainer(recipe, card.exact, data).facts(0).at_once.micro_batches == 1);
        limit(card.winograd, memory);
        Trainer trainer(recipe, card.winograd, data);
        const AtOnce at_once = trainer.facts(0).at_once;
        CHECK(at_once.micro_batches == 2);
        CHECK(at_once.saves.empty());
        CHECK(to_string(at_once).find(", because all at once need ") != std::string::npos);
        CHECK(std::isfinite(trainer.step(true).loss));
        CHECK(std::isfinite(trainer.step().loss));
        CHECK(trainer.facts(0).memory <= between);
        CHECK(memory.refusals == 0);
        memory = {.bytes = between, .told = false}; // then a refusal tells
        limit(card.winograd, memory);
        CHECK(Trainer(recipe, card.winograd, data).facts(0).at_once.micro_batches > 1);
        CHECK(memory.refusals > 0);
    });
}

TEST_CASE("a share that cannot be divided is computed without what needs much scratch memory") {
    struct Case {
        std::string group;
        unsigned examples;
    };
    const Dataset data = test::noise(24);
    for (const Case& each : {Case{"\"batch\"", 12}, Case{"1", 1}, Case{"4", 4}}) {
        CAPTURE(each.group);
        const Recipe recipe = wide_recipe(each.group);
        on_every_card(each.examples, recipe, data, [&](OnCard& card) {
            const auto train = [&](const TrainerOptions& options, std::string& text) {
                Trainer trainer(recipe, options, data);
                trainer.step(true);
                trainer.step();
                text = to_string(trainer.facts(0).at_once);
                return trainer.save().state;
            };
            std::string text;
            const std::vector<float> exact = train(card.exact, text);
            CHECK(text.empty());
            CHECK(train(card.winograd, text) != exact);
            CHECK(text.empty());
            for (const bool told : {true, false}) {
                test::MemoryLimit memory{.bytes = (card.least + card.most) / 2, .told = told};
                limit(card.winograd, memory);
                CHECK(train(card.winograd, text) == exact);
                CAPTURE(text);
                CHECK(text.find("1 micro-batch of up to ") == 0);
                CHECK(text.find(", with --exact-products, because more memory was refused: no memory for ") !=
                      std::string::npos);
                CHECK(memory.refusals == 1);
            }
            test::MemoryLimit little{.bytes = card.least - 1};
            limit(card.winograd, little);
            CHECK_THROWS_WITH_AS(train(card.winograd, text), doctest::Contains("no memory for "),
                                 DeviceError);
        });
    }
}

TEST_CASE("what a card chooses for want of scratch memory is not recorded for others, which have more") {
    const Dataset data = test::noise(24);
    const Recipe recipe = wide_recipe("\"batch\"");
    on_every_card(12, recipe, data, [&](OnCard& card) {
        for (const bool has_room : {true, false}) {
            test::MemoryLimit memory;
            if (!has_room) memory.bytes = (card.least + card.most) / 2;
            limit(card.winograd, memory);
            card.winograd.tuning = std::make_shared<Tuning>(TuningOptions{.effort = Effort::automatic});
            Trainer trainer(recipe, card.winograd, data);
            trainer.tune(nullptr);
            CHECK(trainer.facts(0).at_once.saves.empty() == has_room);
            CHECK(card.winograd.tuning->has_choices() == has_room);
        }
    });
}

TEST_CASE("the test passes of a training use the scratch memory of its steps") {
    const Dataset data = test::noise(24), tests = test::noise(12);
    const Recipe recipe = wide_recipe("1");
    on_every_card(12, recipe, data, [&](OnCard& card) {
        test::MemoryLimit memory;
        limit(card.winograd, memory);
        Trainer trainer(recipe, card.winograd, data, test::borrowed(tests));
        trainer.step();
        const std::uint64_t before = memory.peak;
        trainer.test(false);
        CHECK(memory.peak - before < (card.most - card.least) / 4);
    });
}

} // namespace towers
