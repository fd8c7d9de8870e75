#include "engine/reduce/host_reducer.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/networks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>

namespace towers {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A host reducer of several towers, with the memory that the towers share with it.
struct Stage {
    Recipe recipe;
    StateLayout layout = layout_of(recipe);
    std::vector<ArenaRange> buckets = make_buckets(layout, {.least = 4096, .most = 16384});
    std::unique_ptr<Device> memory = open_device("cpu", {.threads = 1});
    std::vector<Buffer> gradients, parameters;
    std::unique_ptr<HostReducer> reducer;

    explicit Stage(std::size_t towers, unsigned threads = 2, Recipe its = test::small_recipe())
        : recipe(std::move(its)) {
        std::vector<StagedByTower> staged;
        for (std::size_t i = 0; i < towers; ++i) {
            gradients.push_back(memory->allocate(layout.variable_bytes, Memory::staging));
            parameters.push_back(memory->allocate(layout.trained_bytes, Memory::staging));
            staged.push_back({gradients[i].host<float>(), parameters[i].host<float>()});
        }
        reducer = std::make_unique<HostReducer>(OpenOptions{.threads = threads}, Milestones::Spin(20),
                                                test::update_of(recipe, layout), std::move(staged), buckets);
        reducer->load(initial_state(layout, 3));
    }

    std::span<float> of(std::size_t tower, const VariableSlot& slot) const {
        return part(gradients[tower].host<float>(), slot.range).first(slot.variable.elements());
    }
    /// The same gradient for every element of the tower.
    void give(std::size_t tower, float gradient) const {
        for (const VariableSlot& slot : layout.variables) std::ranges::fill(of(tower, slot), gradient);
    }
    /// Another gradient for each element of the tower.
    void give_waves(std::size_t tower) const {
        for (const VariableSlot& slot : layout.variables)
            for (std::size_t i = 0; i < slot.variable.elements(); ++i)
                of(tower, slot)[i] = std::sin(float(i + 7 * tower));
    }
    void update(const std::vector<std::size_t>& towers) const {
        reducer->begin({.learning_rate = 0.125f, .average_decay = 0.5f}, towers);
        for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) reducer->give(bucket + 1);
    }
    StepResults step(const std::vector<std::size_t>& towers) const {
        update(towers);
        return end(std::vector(towers.size(), 1.0f));
    }
    StepResults end(const std::vector<float>& cross_entropies) const {
        return reducer->end({.cross_entropies = cross_entropies}).results;
    }

    std::vector<float> state() const { return {reducer->state().begin(), reducer->state().end()}; }
    std::vector<float> sums() const {
        std::vector<float> sums(layout.variable_bytes / sizeof(float));
        reducer->save_gradients(sums);
        return sums;
    }
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

} // namespace

TEST_CASE("gradients are added up in the order of the towers, and the parameters follow the sum") {
    const Stage reducer(4);
    REQUIRE(reducer.buckets.size() > 2);
    const std::vector<float> before = reducer.state();
    reducer.give(0, 1e8f);
    reducer.give(1, infinity); // has no share
    reducer.give(2, -1e8f);
    reducer.give(3, 1); // lost in any other order
    CHECK(reducer.step({0, 2, 3}).finite);
    const std::vector<float> after = reducer.state(), sums = reducer.sums();
    bool any = false;
    for (const VariableSlot& slot : reducer.layout.variables) {
        if (slot.weight_decay != 0) continue;
        any = true;
        CAPTURE(slot.variable.name);
        for (std::size_t i = 0; i < slot.variable.elements(); ++i) {
            const std::size_t at = slot.range.offset / sizeof(float) + i;
            REQUIRE(sums[at] == 1);
            REQUIRE(after[at] == before[at] - 0.125f);
        }
    }
    CHECK(any);
}

TEST_CASE("the number of threads changes no bit") {
    const Stage one(3, 1), four(3, 4);
    for (int step = 0; step < 3; ++step) {
        for (const Stage* reducer : {&one, &four})
            for (std::size_t tower = 0; tower < 3; ++tower) reducer->give_waves(tower);
        CHECK(one.step({0, 1, 2}).total_loss == four.step({0, 1, 2}).total_loss);
        CHECK(same_bits(one.state(), four.state()));
        CHECK(same_bits(one.sums(), four.sums()));
    }
}

TEST_CASE("denormal gradients count as zero, on every thread of the reducer") {
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
        CAPTURE(threads);
        const Stage reducer(2, threads);
        reducer.give(0, 0x1p-127f);
        reducer.give(1, 0x1p-127f); // together the least normal number
        CHECK(reducer.step({0, 1}).finite);
        const std::vector<float> sums = reducer.sums();
        for (const VariableSlot& slot : reducer.layout.variables)
            if (slot.weight_decay == 0) // else the sum has a part of the variable
                for (const float sum : part(std::span(sums), slot.range)) REQUIRE(sum == 0);
    }
}

TEST_CASE("a step that is not finite, or is not ended, leaves the state and counts for nothing later") {
    const Stage reducer(2), undisturbed(2);
    const auto step_well = [](const Stage& at) {
        at.give_waves(0);
        at.give_waves(1);
        return at.step({0, 1});
    };
    CHECK(step_well(reducer).finite);
    CHECK(step_well(undisturbed).finite);
    const std::vector<float> before = reducer.state();
    for (const VariableSlot& slot : {reducer.layout.variables.front(), reducer.layout.variables.back()}) {
        reducer.of(1, slot).back() = infinity;
        CHECK_FALSE(reducer.step({0, 1}).finite);
        CHECK(same_bits(reducer.state(), before));
        reducer.of(1, slot).back() = 0;
    }
    reducer.update({0, 1});
    CHECK_FALSE(reducer.end({1.0f, std::nanf("")}).finite);
    CHECK(same_bits(reducer.state(), before));
    reducer.update({0, 1});
    CHECK_FALSE(reducer.reducer->end({.counts = false}).counts);
    CHECK(same_bits(reducer.state(), before));
    CHECK(step_well(reducer).finite);
    step_well(undisturbed);
    CHECK(same_bits(reducer.state(), undisturbed.state()));
    CHECK(same_bits(reducer.sums(), undisturbed.sums()));
}

TEST_CASE("the norm to clip by is that of all variables together") {
    constexpr float most = 0.5f;
    Recipe recipe = test::small_recipe();
    auto clipped = std::const_pointer_cast<Optimizer>(recipe.optimizer);
    clipped->clip_norm = most;
    const Stage reducer(2, 2, std::move(recipe));
    reducer.reducer->load(std::vector<float>(reducer.layout.bytes / sizeof(float))); // nothing decays
    reducer.give(0, 0.25f);
    reducer.give(1, 0.75f);
    const std::vector<std::size_t> towers{0, 1};
    reducer.reducer->begin({.learning_rate = 0.125f}, towers);
    for (std::size_t bucket = 0; bucket < reducer.buckets.size(); ++bucket) {
        const bool last = bucket + 1 == reducer.buckets.size();
        reducer.reducer->give(bucket + 1);
        CHECK(reducer.reducer->complete().count() == (last ? reducer.buckets.size() : 0));
    }
    CHECK(reducer.end({1, 1}).finite);
    std::size_t elements = 0;
    for (const VariableSlot& slot : reducer.layout.variables) elements += slot.variable.elements();
    const std::vector<float> sums = reducer.sums();
    for (const VariableSlot& slot : reducer.layout.variables)
        CHECK(sums[slot.range.offset / sizeof(float)] ==
              doctest::Approx(most / std::sqrt(double(elements))).epsilon(1e-5));
}

TEST_CASE("each bucket's parameters reach the towers of the step as soon as it is done") {
    const Stage reducer(3);
    for (std::size_t tower = 0; tower < 3; ++tower) {
        reducer.give_waves(tower);
        std::ranges::fill(reducer.parameters[tower].host<float>(), 7.0f);
    }
    const std::vector<std::size_t> towers{0, 2};
    reducer.reducer->begin({.learning_rate = 0.125f}, towers);
    const auto trained = [&](std::size_t tower) { return reducer.parameters[tower].host<float>(); };
    for (std::size_t bucket = 0; bucket < reducer.buckets.size(); ++bucket) {
        reducer.reducer->give(bucket + 1);
        CHECK(reducer.reducer->complete().wait_for(bucket + 1) == Milestones::Outcome::passed);
        const std::size_t done =
            (reducer.buckets[bucket].offset + reducer.buckets[bucket].bytes) / sizeof(float);
        for (const std::size_t tower : towers) {
            CHECK(trained(tower)[done - 1] != 7);
            if (done < trained(tower).size()) CHECK(trained(tower)[done] == 7);
        }
    }
    CHECK(reducer.end({1, 1}).finite);
    const std::vector<float> state = reducer.state();
    const auto present = part(std::span<const float>(state), reducer.layout.trained());
    CHECK(same_bits(trained(0), present));
    CHECK(same_bits(trained(2), present));
    CHECK(std::ranges::count(trained(1), 7.0f) == std::ptrdiff_t(trained(1).size())); // had no share
    reducer.reducer->hand_over(1);
    CHECK(same_bits(trained(1), present));
}

} // namespace towers
