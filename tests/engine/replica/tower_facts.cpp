#include "tests/support/networks.h"

#include <doctest/doctest.h>

namespace towers {

TEST_CASE("a run tells the share of each tower, how it computes it and what memory it uses") {
    TrainerOptions options = test::options_for({"cpu", "cpu"}, 24);
    options.micro_batch = 10;
    options.shares.recorded = {{0, {20, 4}}, {1, {24, 0}}};
    Trainer trainer(test::small_recipe(), options, test::noise(50));
    const auto check = [&trainer](std::size_t tower, unsigned share, unsigned pieces, unsigned most) {
        CAPTURE(tower);
        const TowerFacts facts = trainer.facts(tower);
        CHECK(facts.name == "cpu");
        CHECK(facts.host.empty());
        CHECK(facts.info.name == open_device("cpu", {})->info().name);
        CHECK(facts.share == share);
        CHECK(facts.at_once.micro_batches == pieces);
        CHECK(facts.at_once.most == most);
        REQUIRE(trainer.own_tower(tower) != nullptr);
        CHECK(facts.memory == trainer.own_tower(tower)->memory());
        CHECK(facts.memory > 0);
    };
    trainer.step();
    CHECK(trainer.taken().micro_batches == std::vector{2u, 1u});
    check(0, 20, 2, 10);
    check(1, 4, 1, 4);
    CHECK(trainer.own_tower(0) != trainer.own_tower(1));
    trainer.step();
    CHECK(trainer.taken().micro_batches == std::vector{3u, 0u});
    check(0, 24, 3, 8);
    check(1, 0, 1, 0);
}

} // namespace towers
