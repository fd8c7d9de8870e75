// Choosing by measuring: the fastest way that computes the same, once.
#include "engine/tuning/tuning.h"

#include "backends/backend.h"
#include "backends/cache.h"
#include "backends/wrapped_device.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace towers {
namespace {

using test::input_error;
using test::TemporaryFolder;

/// A CPU that can run a ReLU in several ways: `slow`, which it takes for the fastest, runs it 50 times more
/// than `plain`, `wrong` does nothing, `broken` cannot be recorded, and for `large` memory does not suffice.
/// By its estimate, `dear` is the slowest.
class ManyWays : public WrappedDevice {
public:
    explicit ManyWays(const Choices& choices) : WrappedDevice(open_device("cpu", {})), choices_(choices) {}

    std::set<std::string> recorded;      ///< the ways that it was asked for
    std::map<std::string, unsigned> ran; ///< how often each
    std::map<std::string, double> us;    ///< what its clock says that they take; empty: it has none

    const DeviceInfo& info() const override { return info_; }
    void set_info(const DeviceInfo& info) { info_ = info; }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        if (launch.kernel != Kernel::relu_forward) return {};
        const Chosen* const chosen = find(&choices_, launch);
        const std::string used = chosen != nullptr && chosen->variant != "sorcery" ? chosen->variant : "slow";
        std::vector<Candidate> all;
        for (const auto& [name, cost] : {std::pair("slow", 1.0),
                                         {"wrong", 2.0},
                                         {"dear", 9.0},
                                         {"broken", 3.0},
                                         {"large", 5.0},
                                         {"plain", 4.0}})
            all.push_back({name, {.cost = cost}, name == used});
        return all;
    }

protected:
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        std::vector<Command> changed;
        std::string recorded_as;
        for (const Command& command : commands) {
            const auto* const launch = std::get_if<Launch>(&command);
            const Chosen* const chosen = launch != nullptr ? find(&choices_, *launch) : nullptr;
            if (chosen == nullptr) {
                changed.push_back(command);
                continue;
            }
            recorded.insert(recorded_as = chosen->variant);
            if (chosen->variant == "broken") throw DeviceError("it does not compile");
            if (chosen->variant == "large") throw OutOfMemory("no scratch memory");
            for (int i = 0; i < (chosen->variant == "slow" ? 50 : chosen->variant == "wrong" ? 0 : 1); ++i)
                changed.push_back(command);
        }
        auto made = std::make_unique<WrappedRecording>(record_theirs(changed, scratch));
        if (!recorded_as.empty())
            made_[made.get()] = {recorded_as,
                                 unsigned(std::ranges::count_if(commands, [](const Command& each) {
                                     return std::holds_alternative<Launch>(each);
                                 }))};
        return made;
    }
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        if (const auto made = made_.find(&recording); made != made_.end())
            ran[made->second.way] += made->second.launches;
        WrappedDevice::do_submit(recording, submission, after);
    }
    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        if (us.empty()) return {};
        const auto& [way, launches] = made_.at(&recording);
        std::vector<double> moments{0};
        while (moments.size() <= launches) moments.push_back(moments.back() + us.at(way) * 1e-6);
        return moments;
    }

private:
    struct Made {
        std::string way;
        unsigned launches = 0;
    };
    const Choices& choices_;
    DeviceInfo info_ = WrappedDevice::info();
    std::map<const RecordingState*, Made> made_;
};

Plan relus() {
    Plan plan;
    for (const unsigned count : {4096u, 4096u, 65536u}) {
        const std::string number = fmt::format("{}", plan.operations().size());
        const TensorId x = plan.activation("x" + number, {count}), y = plan.activation("y" + number, {count});
        plan.add("relu" + number, kernels::relu_forward, {.x = x, .y = y, .count = count, .slope = 0});
        plan.add("silu" + number, kernels::silu_forward, {.x = x, .y = y, .count = count, .slope = 0});
    }
    plan.place();
    return plan;
}

/// A tuning and its device, after tuning.
struct Tuned {
    Tuning tuning;
    ManyWays device;
    bool changed;

    explicit Tuned(const TuningOptions& options, const std::atomic<bool>* stop = nullptr,
                   const std::map<std::string, double>& us = {})
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
    CHECK(full.variants().size() == 2);
    for (const auto& [key, variant] : full.variants()) CHECK((variant == "plain" || variant == "dear"));
    CHECK(full.device.recorded == std::set<std::string>{"slow", "wrong", "dear", "broken", "large", "plain"});
    CHECK(full.tuning.summary().starts_with("tuned: 2 launches measured in "));
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

TEST_CASE("a way that is wrong is not chosen, however much faster it becomes than at first") {
    // It is as fast as the right ones, so that it is compared only in the end.
    Tuned full({.effort = Effort::full}, nullptr,
               {{"slow", 100}, {"wrong", 100}, {"plain", 100}, {"dear", 100}});
    CHECK(full.variants() == both("slow"));
    Tuned late({.effort = Effort::full}, nullptr,
               {{"slow", 100}, {"wrong", 60}, {"plain", 60}, {"dear", 70}});
    CHECK(late.variants() == both("plain"));
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
