// What several processes need of a reducer: owners of slices, answers that come late, votes.
#include "tests/support/two_ranks.h"
#include "engine/ranks/courier.h"
#include "engine/recipes/recipe_plan.h"
#include "engine/reduce/ranked_reducer.h"
#include "tests/support/networks.h"
#include "tests/support/thread_transport.h"

#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <memory>
#include <utility>
#include <vector>

namespace towers {
namespace {

constexpr int steps = 8;

/// The states after each step of three towers whose shares change, some of them to nothing.
std::vector<std::vector<float>> states_of(const Recipe& recipe, MakeReducer make_reducer) {
    const Dataset data = test::noise(60);
    TrainerOptions options = test::options_for({"cpu", "cpu", "cpu"}, 12);
    options.shares.recorded = {{0, {4, 4, 4}}, {2, {0, 11, 1}}, {4, {6, 0, 6}}, {6, {12, 0, 0}}};
    options.make_reducer = std::move(make_reducer);
    Trainer trainer(recipe, options, data);
    std::vector<std::vector<float>> states;
    for (int step = 0; step < steps; ++step) {
        trainer.step();
        states.push_back(trainer.save().state);
        states.push_back(trainer.gradients());
    }
    return states;
}

/// What a reducer of one tower works on.
struct Staged {
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    const std::vector<ArenaRange> buckets = make_buckets(layout, {.least = 4096, .most = 16384});
    const std::unique_ptr<Device> memory = open_host_device({.threads = 1});
    const Buffer gradients = memory->allocate(layout.variable_bytes, Memory::staging),
                 parameters = memory->allocate(layout.trained_bytes, Memory::staging);
    std::vector<StagedByTower> tower() const { return {{gradients.host<float>(), parameters.host<float>()}}; }
};

} // namespace

TEST_CASE("two ranks, of which each owns a part of the state, give the bits of one process") {
    Recipe clipped = test::smooth_recipe("\"batch\"");
    std::const_pointer_cast<Optimizer>(clipped.optimizer)->clip_norm = 0.5f;
    for (const Recipe& recipe : {test::small_recipe(), test::smooth_recipe("\"batch\""), clipped}) {
        const auto alone = states_of(recipe, {}), both = states_of(recipe, test::two_ranks());
        CHECK(both == alone);
        CHECK(alone.back() != alone.front());
    }
}

TEST_CASE("a step for which one has not voted leaves the state, and requests reach the caller") {
    const Staged its;
    for (float& gradient : its.gradients.host<float>()) gradient = 0.5f;
    const auto reducer = test::two_ranks()({.threads = 1}, Milestones::Spin::zero(),
                                           test::update_of(its.recipe, its.layout), its.tower(), its.buckets);
    const std::vector<float> before = initial_state(its.layout, 3);
    reducer->load(before);
    const auto step = [&](const StepVote& vote) {
        reducer->begin({.learning_rate = 0.125f}, std::vector<std::size_t>{0});
        reducer->give(its.buckets.size());
        if (vote.counts)
            CHECK(reducer->complete().wait_for(its.buckets.size()) == Milestones::Outcome::passed);
        const StepVerdict verdict = reducer->end(vote);
        CHECK(verdict.counts == vote.counts);
        CHECK(verdict.requests == vote.requests);
        std::vector<float> state(before.size());
        reducer->save(state);
        return state;
    };
    CHECK(step({.counts = false, .requests = 2}) == before);
    const std::vector<float> after = step({.counts = true, .requests = 0});
    CHECK(after != before);
    CHECK(step({.counts = false}) == after);
}

TEST_CASE("a step does not end without a peer, even if the peer's vote is here") {
    const auto wires = test::make_wires(2);
    const CourierOptions options{.silence = std::chrono::milliseconds(300)};
    Courier courier(test::connect(wires, 0), options), peer(test::connect(wires, 1), options);
    const Staged its;
    RankedReducer reducer(courier, {}, {.threads = 1}, Milestones::Spin::zero(),
                          test::update_of(its.recipe, its.layout), its.tower(), its.buckets);
    reducer.begin({.learning_rate = 0.125f}, std::vector<std::size_t>{0});
    reducer.give(its.buckets.size());
    peer.send(0, Topic::vote, Bytes(64));
    peer.send(0, Topic::setup, {});
    courier.receive(1, Topic::setup); // so the vote has come, too
    test::cut(*wires, 1);
    CHECK_THROWS_AS(reducer.end({.counts = false}), PeerGone);
}

} // namespace towers
