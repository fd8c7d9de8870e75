// Sums of gradients that travel as bfloat16: what rounding takes from a step comes with the next ones.
#include "engine/reduce/wire.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/networks.h"
#include "tests/support/two_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace towers {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int steps = 20;

using Floats = std::vector<float>;

bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

Floats round(RoundedSums& sums, const Floats& given, float loss_scale = 1) {
    sums.begin(loss_scale);
    sums.round(given, {0, given.size() * sizeof(float)});
    Floats sent(given.size());
    widen(sums.rounded(), sent);
    return sent;
}

/// Numbers whose sums over some steps are exact, of many sizes.
class Grid {
public:
    float next() { return float(int(random_() % 4096) - 2048) * std::ldexp(1.0f, -12 - int(random_() % 4)); }
    void fill(std::span<float> all) {
        for (float& each : all) each = next();
    }

private:
    std::mt19937 random_{5};
};

/// A reducer of two ranks of a tower each, with the memory that the towers share with it.
struct Stage {
    Recipe recipe =
        test::smooth_recipe("\"batch\"", R"({ name = "wide", kind = "conv2d", filters = 40, kernel = 5 },)");
    StateLayout layout = layout_of(recipe);
    std::vector<ArenaRange> buckets = make_buckets(layout, {.least = 4096, .most = 24576});
    std::unique_ptr<Device> memory = open_host_device({.threads = 1});
    std::vector<Buffer> gradients, parameters;
    std::unique_ptr<GradientReducer> reducer;
    std::vector<std::size_t> towers{0, 1}; ///< of the next step
    Grid grid;

    Stage() {
        std::vector<StagedByTower> staged;
        for (std::size_t i = 0; i < 2; ++i) {
            gradients.push_back(memory->allocate(layout.variable_bytes, Memory::staging));
            parameters.push_back(memory->allocate(layout.trained_bytes, Memory::staging));
            staged.push_back({gradients[i].host<float>(), parameters[i].host<float>()});
        }
        reducer = test::two_ranks(Wire::bf16)({.threads = 2}, Milestones::Spin(20),
                                              test::update_of(recipe, layout), staged, buckets);
        reducer->load(initial_state(layout, 3));
    }

    void give_grid() {
        for (const Buffer& each : gradients)
            for (const VariableSlot& slot : layout.variables)
                grid.fill(part(each.host<float>(), slot.range).first(slot.variable.elements()));
    }
    StepVerdict step(const StepVote& vote = {}, float loss_scale = 1) const {
        reducer->begin({.learning_rate = 0.125f, .average_decay = 0.5f, .loss_scale = loss_scale}, towers);
        for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) reducer->give(bucket + 1);
        if (vote.counts) CHECK(reducer->complete().wait_for(buckets.size()) == Milestones::Outcome::passed);
        return reducer->end(vote);
    }
    /// The sums of the last step.
    Floats sums() const {
        Floats sums(layout.updated_bytes / sizeof(float));
        reducer->save_gradients(sums);
        return without_decay(sums);
    }
    /// What they would be in float32.
    Floats given() const {
        Floats given(layout.updated_bytes / sizeof(float));
        for (const std::size_t tower : towers)
            for (std::size_t i = 0; i < given.size(); ++i) given[i] += gradients[tower].host<float>()[i];
        return without_decay(given);
    }
    /// Leaves out what decay changes.
    Floats without_decay(Floats all) const {
        for (const VariableSlot& slot : layout.variables)
            if (slot.weight_decay != 0) std::ranges::fill(part(std::span(all), slot.range), 0.f);
        return all;
    }
    Floats state() const {
        Floats state(layout.bytes / sizeof(float));
        reducer->save(state);
        return state;
    }
};

void add(Floats& sum, const Floats& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

double largest_difference(const Floats& a, const Floats& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double(a[i]) - double(b[i])));
    return most;
}

} // namespace

TEST_CASE("sums are rounded to the nearest bfloat16, of two the even one") {
    const Floats given{1,
                       1 + 0x1p-8f,
                       1 + 0x3p-8f,
                       -1 - 0x3p-8f,
                       1 + 0x1p-8f + 0x1p-23f,
                       3.3895314e38f,
                       std::numeric_limits<float>::max(),
                       0x1p-126f,
                       infinity,
                       -infinity};
    RoundedSums sums(given.size());
    CHECK(same_bits(round(sums, given), Floats{1, 1, 1 + 0x1p-6f, -1 - 0x1p-6f, 1 + 0x1p-7f, 3.3895314e38f,
                                               infinity, 0x1p-126f, infinity, -infinity}));
}

TEST_CASE("NaN stays NaN as bfloat16, also one whose payload is cut off") {
    for (const std::uint32_t word : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff80ffffu, 0x7fffffffu}) {
        float nan = 0;
        std::memcpy(&nan, &word, sizeof(nan));
        RoundedSums sums(3);
        CHECK(std::isnan(round(sums, {1, nan, 1})[1]));
    }
}

TEST_CASE("what rounding leaves is added to the next sums, and nothing is lost") {
    constexpr std::size_t count = 3000; // more than are rounded at once
    RoundedSums sums(count);
    Floats sent(count), given(count), gradients(count);
    Grid grid;
    bool differ = false;
    for (int step = 0; step < steps; ++step) {
        grid.fill(gradients);
        add(given, gradients);
        const Floats rounded = round(sums, gradients);
        differ = differ || rounded != gradients;
        add(sent, rounded);
        sums.keep();
        CHECK(largest_difference(sent, given) <= 0x1p-9); // half of a last digit of the largest, below 1
    }
    CHECK(differ);
    CHECK(sent != given);
    for (int rest = 0; rest < 4; ++rest) {
        add(sent, round(sums, Floats(count)));
        sums.keep();
    }
    CHECK(sent == given);
}

TEST_CASE("a step that does not count, a new loss scale and a new state") {
    constexpr std::size_t count = 500;
    RoundedSums sums(count), spoiled(count), scaled(count);
    Grid grid;
    for (int step = 0; step < steps; ++step) {
        Floats gradients(count), larger(count);
        grid.fill(gradients);
        const float scale = step % 3 == 0 ? 0x1p16f : 0x1p-3f;
        std::ranges::transform(gradients, larger.begin(), [=](float each) { return each * scale; });
        const Floats expected = round(sums, gradients);
        sums.keep();
        if (step % 2 == 1) round(spoiled, Floats(count, step == 5 ? infinity : 0.3f)); // is not kept
        CHECK(round(spoiled, gradients) == expected);
        spoiled.keep();
        Floats found = round(scaled, larger, scale);
        scaled.keep();
        for (float& each : found) each /= scale;
        CHECK(found == expected);
    }
    sums.forget();
    RoundedSums fresh(count);
    Floats gradients(count);
    grid.fill(gradients);
    CHECK(round(sums, gradients) == round(fresh, gradients));
}

TEST_CASE(
    "two ranks whose sums travel as bfloat16 have the same parameters, and lose nothing of a gradient") {
    Stage stage;
    REQUIRE(stage.buckets.size() > 2);
    Floats sums(stage.layout.updated_bytes / sizeof(float)), given = sums;
    const std::size_t trained = stage.layout.trained_bytes / sizeof(float);
    bool differ = false;
    for (int step = 0; step < steps + 4; ++step) {
        CAPTURE(step);
        if (step < steps)
            stage.give_grid();
        else
            for (const Buffer& each : stage.gradients) std::ranges::fill(each.host<float>(), 0.f);
        if (step == 7) stage.towers = {0}; // the other keeps what it has left
        if (step == 9) stage.towers = {1};
        if (step == 11) stage.towers = {0, 1};
        CHECK(stage.step().results.finite);
        if (stage.towers.size() == 2)
            CHECK(same_bits(stage.parameters[0].host<float>(), stage.parameters[1].host<float>()));
        const Floats its = stage.sums(), expected = stage.given();
        differ = differ || its != expected;
        CHECK(std::equal(its.begin() + long(trained), its.end(), expected.begin() + long(trained)));
        add(sums, its);
        add(given, expected);
        CHECK(largest_difference(sums, given) <= 0x1p-9);
    }
    CHECK(differ);
    CHECK(trained < sums.size()); // statistics, which are not rounded
    CHECK(sums == given);
}

TEST_CASE("a step that fails or diverges neither loses nor repeats what earlier ones have left") {
    Stage whole, spoiled;
    for (int step = 0; step < steps; ++step) {
        CAPTURE(step);
        whole.give_grid();
        CHECK(whole.step().results.finite);
        spoiled.give_grid();
        const std::span<float> gradients = spoiled.gradients[step % 2].host<float>();
        float& one = gradients[std::size_t(step) * 97 % (spoiled.layout.trained_bytes / sizeof(float) - 64)];
        const float before = one;
        switch (step % 4) {
        case 1:
            one = step % 8 == 1 ? infinity : std::nanf("");
            CHECK_FALSE(spoiled.step().results.finite);
            break;
        case 2:
            one = 3;
            CHECK_FALSE(spoiled.step({.counts = false}).counts);
            break;
        case 3:
            spoiled.reducer->begin({.learning_rate = 0.125f}, spoiled.towers);
            spoiled.reducer->give(spoiled.buckets.size() / 2);
            spoiled.reducer->fail();
            CHECK_FALSE(spoiled.reducer->end({.counts = false}).counts);
            break;
        default:
            break;
        }
        one = before;
        CHECK(spoiled.step().results.finite);
        CHECK(same_bits(spoiled.state(), whole.state()));
    }
    // A state that is loaded has nothing left of steps before it.
    const Floats state = whole.state();
    whole.reducer->load(state);
    Stage fresh;
    fresh.reducer->load(state);
    for (std::size_t tower = 0; tower < 2; ++tower)
        for (const Stage* each : {&whole, &fresh})
            std::ranges::fill(each->gradients[tower].host<float>(), 0.3f);
    whole.step();
    fresh.step();
    CHECK(same_bits(fresh.state(), whole.state()));
}

} // namespace towers
