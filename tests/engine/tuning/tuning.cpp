// Choosing by measuring: the fastest way that computes the same, once.
#include "engine/tuning/tuning.h"

#include "backends/cache.h"
#include "tests/engine/tuning/many_ways.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

namespace towers {
namespace {

using test::input_error;
using test::ManyWays;
using test::relus;
using test::TemporaryFolder;
using test::usual_us;

/// A tuning and its device, after tuning.
struct Tuned {
    Tuning tuning;
    ManyWays device;
    bool changed;

    explicit Tuned(const TuningOptions& options, const std::atomic<bool>* stop = nullptr,
                   const std::map<std::string, double>& us = usual_us)
        : tuning(options), device(tuning.choices("cpu")),
          changed((tuning.opened(device.info()), device.us = us, tune(stop))) {}

    std::map<std::string, std::string> variants() {
        std::map<std::string, std::string> names;
        for (const auto& [key, chosen] : tuning.choices("cpu")) names[key] = chosen.variant;
        return names;
    }

private:
    bool tune(const std::atomic<bool>* stop) {
        const Plan plan = relus();
        const Plan* const plans[] = {&plan};
        return tuning.tune(device, plans, stop);
    }
};

std::map<std::string, std::string> both(const char* variant) {
    return {{"relu_forward 4096 0", variant}, {"relu_forward 65536 0", variant}};
}

} // namespace

TEST_CASE("tuning chooses the fastest way that computes what the plainest does") {
    const TemporaryFolder folder;
    Tuned full({.effort = Effort::full, .cache = folder.path()});
    CHECK(full.changed);
    CHECK(full.variants() == both("plain"));
    CHECK(full.device.recorded == std::set<std::string>{"slow", "wrong", "dear", "broken", "large", "plain"});
    CHECK(full.tuning.summary().starts_with("tuned: 2 launches measured in "));
}

TEST_CASE("each rank takes its own of a run's choices, or else those of the first with such a device") {
    Tuned first({.effort = Effort::full});
    std::vector<DeviceChoices> all = choices_from_json(first.tuning.to_json(), "");
    all.push_back(all[0]);
    all[1].rank = 1;
    for (auto& [key, chosen] : all[1].choices) chosen.variant = "slow";
    const std::string known = choices_to_json(all);
    const auto on_rank = [&](unsigned rank) {
        return Tuned({.effort = Effort::none, .known = "choices.json", .known_text = known, .rank = rank});
    };
    CHECK(on_rank(0).variants() == both("plain"));
    CHECK(on_rank(2).variants() == both("plain"));
    Tuned second = on_rank(1);
    CHECK(second.variants() == both("slow"));
    first.tuning.add(second.tuning.to_json());
    CHECK(first.tuning.to_json() == known);
}

TEST_CASE("what is twice as slow as the fastest so far is not run again") {
    const Tuned full({.effort = Effort::full}, nullptr,
                     {{"slow", 100}, {"wrong", 1}, {"plain", 40}, {"dear", 45}});
    CHECK(full.device.ran.at("slow") <= 2 * 3); // of two launches
    CHECK(full.device.ran.at("plain") > 2 * 5 * 16);
    CHECK(full.device.ran.at("dear") > 2 * 5 * 16);
    CHECK(full.device.ran.at("wrong") <= 2 * 3);
    const Tuned near({.effort = Effort::full}, nullptr,
                     {{"slow", 55}, {"wrong", 1}, {"plain", 40}, {"dear", 45}});
    CHECK(near.device.ran.at("slow") <= 2 * (3 + 3 * 16)); // after a round
}

TEST_CASE("long launches are repeated a few times") {
    Tuned full({.effort = Effort::full}, nullptr,
               {{"slow", 30e3}, {"wrong", 1}, {"plain", 28e3}, {"dear", 29.5e3}});
    CHECK(full.variants() == both("plain"));
    for (const char* const way : {"slow", "plain", "dear"}) {
        CHECK(full.device.ran.at(way) >= 2 * 4);
        CHECK(full.device.ran.at(way) <= 2 * 5);
    }
}

TEST_CASE("a way that is wrong is not chosen, also if it turns out to be the fastest only in the end") {
    Tuned full({.effort = Effort::full}, nullptr,
               {{"slow", 100}, {"wrong", 100}, {"wrong again", 50}, {"plain", 90}, {"dear", 100}});
    CHECK(full.variants() == both("plain"));
    Tuned same({.effort = Effort::full}, nullptr,
               {{"slow", 100}, {"wrong", 100}, {"plain", 100}, {"dear", 100}});
    CHECK(same.variants() == both("slow"));
}

TEST_CASE("devices of one kind share what is measured, and the user sees how far it is") {
    std::vector<std::string> lines;
    Tuning tuning(
        {.effort = Effort::full, .progress = [&](const std::string& line) { lines.push_back(line); }});
    const Plan plan = relus();
    const Plan* const plans[] = {&plan};
    for (const char* const id : {"cpu", "cpu:1"}) { // which no machine has, but cards have their like
        ManyWays device(tuning.choices(id));
        DeviceInfo info = device.info();
        info.id = id;
        device.set_info(info);
        tuning.opened(device.info());
        CHECK(tuning.tune(device, plans, nullptr));
        CHECK(device.recorded.empty() == (id == std::string("cpu:1")));
    }
    CHECK(lines == std::vector<std::string>{"tuning cpu: 1 of 2 launches, relu0",
                                            "tuning cpu: 2 of 2 launches, relu4", ""});
    CHECK(tuning.choices("cpu").size() == 2);
    CHECK(tuning.choices("cpu:1").size() == 2);
}

TEST_CASE("quick tuning measures what the estimate takes for the fastest, and the plainest") {
    const TemporaryFolder folder;
    Tuned quick({.effort = Effort::quick, .cache = folder.path()});
    CHECK(quick.device.recorded == std::set<std::string>{"slow", "wrong", "broken", "plain"});
    CHECK(quick.variants() == both("plain"));
}

TEST_CASE("what one run has measured, later runs know, with as much effort and on the same device") {
    const TemporaryFolder folder;
    const auto tuned = [&](Effort effort, bool exact = false) {
        return Tuned({.effort = effort, .cache = folder / "made", .exact_products = exact});
    };
    const std::map<std::string, std::string> first = tuned(Effort::quick).variants();
    Tuned second = tuned(Effort::quick);
    CHECK(second.changed);
    CHECK(second.variants() == first);
    CHECK(second.device.recorded.empty());
    CHECK(second.tuning.summary() == "tuned: 0 launches measured in 0.0 s; 2 known already");
    CHECK_FALSE(tuned(Effort::full).device.recorded.empty());
    CHECK_FALSE(tuned(Effort::quick, true).device.recorded.empty());
    CHECK(test::names_in(folder / "made").size() == 3);
}

TEST_CASE("a damaged or foreign file in the cache is ignored and replaced") {
    const TemporaryFolder folder;
    const TuningOptions options{.effort = Effort::quick, .cache = folder.path()};
    { const Tuned first(options); }
    const std::filesystem::path file = folder / test::names_in(folder.path()).at(0);
    const std::string sound = read_cached(file).value();
    const std::filesystem::path early = std::filesystem::path(file).replace_extension("json");
    test::write_text(early, sound); // as an early version kept it
    std::vector<DeviceChoices> foreign = choices_from_json(sound, "");
    foreign.at(0).kernels = "other";
    std::vector<DeviceChoices> unfit = choices_from_json(sound, "");
    for (auto& [key, chosen] : unfit.at(0).choices) chosen.variant = "unknown";
    const auto check_replaced = [&] {
        Tuned again(options);
        CHECK(again.variants() == both("plain"));
        CHECK_FALSE(again.device.recorded.empty());
        CHECK(choices_from_json(read_cached(file).value(), "").at(0).choices.size() == 2);
    };
    for (const std::string& text : {std::string(), sound.substr(0, sound.size() / 2),
                                    choices_to_json(foreign), choices_to_json(unfit)}) {
        write_cached(file, text);
        check_replaced();
        CHECK_FALSE(std::filesystem::exists(early));
        test::write_text(file, text);
        check_replaced();
    }
}

TEST_CASE("choices that are given are used, and others are measured only if that is wanted") {
    const TemporaryFolder folder;
    Tuned made({.effort = Effort::quick});
    std::vector<DeviceChoices> given = choices_from_json(made.tuning.to_json(), "");
    given.at(0).choices = {{"relu_forward 4096 0", {"dear", {}}}};
    test::write_text(folder / "given", choices_to_json(given));

    Tuned exactly({.effort = Effort::none, .known = folder / "given", .complete = true});
    CHECK_FALSE(exactly.changed);
    CHECK(exactly.variants() == std::map<std::string, std::string>{{"relu_forward 4096 0", "dear"}});
    CHECK(exactly.tuning.summary().empty());

    Tuned rest({.effort = Effort::quick, .known = folder / "given"});
    CHECK(rest.changed);
    CHECK(rest.variants() == std::map<std::string, std::string>{{"relu_forward 4096 0", "dear"},
                                                                {"relu_forward 65536 0", "plain"}});

    given.at(0).choices["relu_forward 65536 0"] = {"sorcery", {}};
    given.at(0).choices["relu_forward 9 0"] = {"sorcery", {}}; // of another run's share
    test::write_text(folder / "given", choices_to_json(given));
    Tuned unknown({.effort = Effort::none, .known = folder / "given", .complete = true});
    CHECK(unknown.changed); // they may serve other batches
    CHECK(unknown.variants() == std::map<std::string, std::string>{{"relu_forward 4096 0", "dear"},
                                                                   {"relu_forward 65536 0", "slow"},
                                                                   {"relu_forward 9 0", "sorcery"}});
    CHECK(unknown.device.recorded.empty());

    given.at(0).name = "another";
    test::write_text(folder / "given", choices_to_json(given));
    CHECK(input_error([&] {
              Tuned({.effort = Effort::none, .known = folder / "given", .complete = true});
          }).starts_with((folder / "given").string() + ": has no choices for cpu ("));
    CHECK(Tuned({.effort = Effort::quick, .known = folder / "given"}).variants() == both("plain"));
    CHECK(input_error([&] { Tuned({.effort = Effort::none, .known = folder / "absent"}); }).find("absent") !=
          std::string::npos);
}

TEST_CASE("tuning ends early when it is told to, and changes nothing without a launch") {
    const std::atomic<bool> stop = true;
    Tuned stopped({.effort = Effort::full}, &stop);
    CHECK_FALSE(stopped.changed);
    CHECK(stopped.device.recorded.empty());
}

TEST_CASE("launches that read integers or change what they read are not measured") {
    Plan plan;
    const TensorId x = plan.activation("x", {64}), y = plan.activation("y", {64});
    plan.add("apart", kernels::relu_forward, {.x = x, .y = y, .count = 64, .slope = 0});
    plan.add("in place", kernels::relu_forward, {.x = x, .y = x, .count = 64, .slope = 0});
    plan.add("read_write", kernels::accumulate_gradients, {.x = x, .sum = y, .quads = 16});
    std::vector<bool> measurable;
    for (const Operation& each : plan.operations())
        measurable.push_back(is_measurable({&std::get<Launch>(each.work), &plan}));
    CHECK(measurable == std::vector<bool>{true, false, false});
}

} // namespace towers
