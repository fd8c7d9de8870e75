#include "engine/execution/session.h"

#include "backends/wrapped_device.h"
#include "engine/recipes/recipe_plan.h"
#include "tests/support/devices.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

namespace towers {
namespace {

constexpr std::size_t state = std::size_t(Arena::state), gradients = std::size_t(Arena::gradients);

ArenaBytes bytes_of(std::size_t of_state, std::size_t of_gradients) {
    ArenaBytes bytes{};
    bytes[state] = of_state;
    bytes[gradients] = of_gradients;
    return bytes;
}

std::vector<float> contents(const Session& session, Arena arena) {
    std::vector<float> values(session.bytes()[std::size_t(arena)] / sizeof(float));
    session.download(arena, values);
    return values;
}

} // namespace

TEST_CASE("a session's arenas grow, and those that are large enough keep what they have") {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Session session(test::device(id));
        CHECK(session.bytes() == ArenaBytes{});
        session.hold(bytes_of(256, 256));
        const std::vector<float> ones(64, 1), zeros(128);
        session.upload(Arena::state, ones);
        session.upload(Arena::gradients, ones);
        CHECK_FALSE(session.holds(bytes_of(256, 512)));
        session.hold(bytes_of(16, 512));
        CHECK(session.holds(bytes_of(256, 512)));
        CHECK(session.bytes() == bytes_of(256, 512));
        CHECK(contents(session, Arena::state) == ones);
        CHECK(contents(session, Arena::gradients) == zeros);
        session.release(Arena::state);
        CHECK(session.bytes() == bytes_of(0, 512));
    }
}

TEST_CASE("a session that is refused memory has as much as before") {
    std::size_t largest = SIZE_MAX;
    test::ScriptedDevice device(open_device("cpu", test::open_options()),
                                {.allocate = [&](std::size_t bytes, std::uint64_t) {
                                    if (bytes > largest) throw OutOfMemory("too much");
                                }});
    Session session(device);
    session.hold(bytes_of(256, 256));
    largest = 300;
    CHECK_THROWS_AS(session.hold(bytes_of(512, 256)), OutOfMemory);
    CHECK(session.bytes() == bytes_of(256, 256));
}

TEST_CASE("a session shares the arenas that it is told to, and has its own of the others") {
    for (const std::string& id : test::device_ids()) {
        CAPTURE(id);
        Session first(test::device(id));
        first.hold(bytes_of(256, 256));
        Session second(first, [](Arena arena) { return arena == Arena::state; });
        CHECK(second.bytes() == bytes_of(256, 0));
        second.hold(bytes_of(256, 256));
        const std::vector<float> ones(64, 1), twos(64, 2);
        for (const Arena arena : {Arena::state, Arena::gradients}) {
            first.upload(arena, ones);
            second.upload(arena, twos);
        }
        CHECK(contents(first, Arena::state) == twos);
        CHECK(contents(first, Arena::gradients) == ones);
        // What one of them gives up the other keeps.
        first.release(Arena::state);
        CHECK(contents(second, Arena::state) == twos);
    }
}

TEST_CASE("a session runs a plan and reads its results") {
    const Recipe recipe = test::small_recipe();
    const StateLayout layout = layout_of(recipe);
    const Dataset data = test::noise(20);
    const Plan plan =
        plan_single_step(test::spec_of(recipe, layout, 4, data.size()), update_spec(recipe, layout)).plan;
    for (const Session::Place place : {Session::Place::by_arena, Session::Place::host}) {
        const auto device = open_device("cpu", test::open_options());
        Session session(*device, place);
        session.hold(plan.bytes());
        session.load(data);
        const std::vector<float> before = initial_state(layout, 5);
        session.upload(Arena::state, before);
        session.write(StepNumbers{.learning_rate = 0.1f});
        std::vector<Example> examples{{.record = 0}, {.record = 1}, {.record = 2}, {.record = 3}};
        ResidentFeed(data).bring(examples);
        session.write(examples);
        const Recording recording = session.record(plan);
        session.run(recording);
        const StepResults results = session.results();
        CHECK(results.finite);
        CHECK(results.cross_entropy == doctest::Approx(2.3).epsilon(0.1)); // of ten classes, untrained
        CHECK(results.total_loss > results.cross_entropy);                 // by the weight decay
        CHECK(contents(session, Arena::state) != before);
        CHECK(std::ranges::equal(session.host<Example>(plan.find("examples")), examples));
        if (place == Session::Place::host)
            CHECK(std::ranges::equal(session.host<float>(Arena::state), contents(session, Arena::state)));
    }
}

} // namespace towers
