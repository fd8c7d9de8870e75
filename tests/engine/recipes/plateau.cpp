// The plateau schedule against PyTorch's ReduceLROnPlateau (tests/fixtures/make_plateau.py).
#include "engine/config/parse.h"
#include "engine/recipes/schedule.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>

namespace towers {
namespace {

Schedule schedule_of(const std::string& keys) {
    const std::string text = "[schedule]\nkind = \"plateau\"\n" + keys;
    const Value value = parse_toml(text, "schedule");
    Attributes file(value, "schedule", "the recipe");
    return read_schedule(file.table("schedule"));
}

} // namespace

TEST_CASE("a plateau schedule has PyTorch's learning rates") {
    const nlohmann::json runs =
        nlohmann::json::parse(test::read_text(test::source_folder() / "tests/fixtures/plateau.json"));
    REQUIRE(runs.size() == 24);
    unsigned changes = 0;
    for (const nlohmann::json& run : runs) {
        CAPTURE(run.dump());
        const auto number = [&](const char* key) { return run.at(key).get<double>(); };
        const Schedule schedule = schedule_of(fmt::format(
            "factor = {}\npatience = {}\nthreshold = {}\nthreshold_mode = \"{}\"\ncooldown = {}\nlast = {}\n",
            number("factor"), run.at("patience").get<unsigned>(), number("threshold"),
            run.at("threshold_mode").get<std::string>(), run.at("cooldown").get<unsigned>(),
            number("min_lr")));
        Plateau state;
        for (std::size_t i = 0; i < run.at("values").size(); ++i) {
            CAPTURE(i);
            const double before = state.factor;
            state = after_pass(schedule, state, i + 1, run["values"][i].get<double>(), run["mode"] == "min");
            CHECK(state.factor == run["rates"][i].get<double>());
            // A pass counts once, and after its step another value changes nothing.
            CHECK(after_pass(schedule, state, i + 1, 1e9, false) == state);
            changes += state.factor != before;
        }
    }
    CHECK(changes > 50);
}

TEST_CASE("a test pass without a value of the metric is not better") {
    const Schedule schedule = schedule_of("patience = 1\n");
    CHECK(schedule.factor == 0.1);
    Plateau state;
    for (std::uint64_t step = 1; step <= 2; ++step) state = after_pass(schedule, state, step, {}, false);
    CHECK(state == Plateau{.step = 2, .best = {}, .bad = 0, .cooldown = 0, .factor = 0.1});
    state = after_pass(schedule, state, 3, -5.0, false);
    CHECK(state.best == -5.0);
}

} // namespace towers
