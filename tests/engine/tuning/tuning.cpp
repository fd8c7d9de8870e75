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
    std::map<std::string, double> costs; ///< where they are other than usual
    /// What its clock says that they take, `plain again` where a recording has several; empty: it has none
    std::map<std::string, double> us;

    const DeviceInfo& info() const override { return info_; }
    void set_info(const DeviceInfo& info) { info_ = info; }
    std::vector<Candidate> candidates(const Launch& launch) const override {
        if (launch.kernel != Kernel::relu_forward && launch.kernel != Kernel::conv2d_forward) return {};
        const Chosen* const chosen = find(&choices_, launch);
        const std::string used = chosen != nullptr && chosen->variant != "sorcery" ? chosen->variant : "slow";
        const double batch = launch.kernel == Kernel::conv2d_forward
                                 ? launch.parameters.as<Conv2dForwardParams>().shape.batch
                                 : 1;
        std::vector<Candidate> all;
        for (const auto& [name, cost] : {std::pair("slow", 1.0),
                                         {"wrong", 2.0},
                                         {"dear", 9.0},
                                         {"broken", 3.0},
                                         {"large", 5.0},
                                         {"plain", 4.0}}) {
            const auto other = costs.find(name);
            all.push_back(
                {name, {.cost = batch * (other != costs.end() ? other->second : cost)}, name == used});
        }
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
        made_[made.get()] = {recorded_as, unsigned(std::ranges::count_if(commands, [](const Command& each) {
                                 return std::holds_alternative<Launch>(each);
                             }))};
        return made;
    }
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        const auto& [way, launches] = made_.at(&recording);
        if (!way.empty()) ran[way] += launches;
        WrappedDevice::do_submit(recording, submission, after);
    }
    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        if (us.empty()) return {};
        const auto& [way, launches] = made_.at(&recording);
        const auto again = launches > 1 ? us.find(way + " again") : us.end();
        const double each = again != us.end() ? again->second : us.at(way);
        std::vector<double> moments{0};
        while (moments.size() <= launches) moments.push_back(moments.back() + each * 1e-6);
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

namespace {

constexpr double budget = 100;
TuningOptions automatic(const std::filesystem::path& cache = {}) {
    return {.effort = Effort::automatic, .cache = cache, .budget = budget};
}

/// A card in several runs.
struct Card {
    Tuning tuning;
    ManyWays device;

    explicit Card(const TuningOptions& options, const std::map<std::string, double>& costs = {},
                  DeviceKind kind = DeviceKind::discrete_gpu)
        : tuning(options), device(tuning.choices("cpu")) {
        DeviceInfo info = device.info();
        info.kind = kind;
        device.set_info(info);
        device.costs = costs;
        tuning.opened(device.info());
    }
    bool tune(const Plan& plan) {
        const Plan* const plans[] = {&plan};
        return tuning.tune(device, plans, nullptr);
    }
    std::string variants() {
        std::string all;
        for (const auto& [key, chosen] : tuning.choices("cpu"))
            all += key.substr(0, key.find(' ', key.find(' ') + 1)) + ": " + chosen.variant + "\n";
        return all;
    }
};

/// A convolution for each batch
Plan convolutions(const std::vector<unsigned>& batches) {
    Plan plan;
    for (const unsigned batch : batches) {
        const std::string number = fmt::format("{}", batch);
        const TensorId x = plan.activation("x" + number, {batch, 4, 4, 4}),
                       y = plan.activation("y" + number, {batch, 4, 4, 4}),
                       w = plan.activation("w" + number, {4, 4});
        plan.add("conv" + number, kernels::conv2d_forward,
                 {.x = x,
                  .w = w,
                  .y = y,
                  .shape = {.batch = batch,
                            .in_height = 4,
                            .in_width = 4,
                            .in_channels = 4,
                            .out_height = 4,
                            .out_width = 4,
                            .out_channels = 4,
                            .kernel_height = 1,
                            .kernel_width = 1,
                            .stride_y = 1,
                            .stride_x = 1,
                            .dilation_y = 1,
                            .dilation_x = 1,
                            .groups = 1},
                  .splits = 1});
    }
    plan.place();
    return plan;
}

const std::map<std::string, double> unsure{{"dear", 1.1}};

} // namespace

TEST_CASE("automatic tuning measures on cards what the estimate's error may have put in the wrong order") {
    Card sure(automatic());
    CHECK(sure.tuning.concerns(sure.device.info()));
    sure.tune(relus());
    CHECK(sure.device.recorded.empty());
    CHECK(sure.variants() == "relu_forward 4096: slow\nrelu_forward 65536: slow\n"); // for resumed runs
    CHECK(sure.tuning.summary() ==
          "tuned: 0 launches measured in 0.0 s; 2 by the estimate, which is sure enough");
    CHECK(sure.tuning.has_choices());

    Card tuned(automatic(), unsure);
    CHECK(tuned.tune(relus()));
    CHECK(tuned.device.recorded == std::set<std::string>{"slow", "dear", "plain"}); // which judges
    CHECK(tuned.variants().find("slow") == std::string::npos);
    CHECK(tuned.tuning.summary().starts_with("tuned: 2 launches measured in "));

    // At most three, and the plainest; no estimate is no reason to measure
    const double none = std::numeric_limits<double>::infinity();
    Card many(automatic(),
              {{"wrong", 1.01}, {"dear", 1.02}, {"broken", 1.03}, {"large", 1.04}, {"plain", none}});
    many.tune(relus());
    CHECK(many.device.recorded == std::set<std::string>{"slow", "wrong", "dear", "plain"});
    Card without(automatic(), {{"slow", none},
                               {"wrong", none},
                               {"dear", none},
                               {"broken", none},
                               {"large", none},
                               {"plain", none}});
    without.tune(relus());
    CHECK(without.device.recorded.empty());

    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::software}) {
        Card other(automatic(), unsure, kind);
        CHECK_FALSE(other.tuning.concerns(other.device.info()));
        CHECK_FALSE(other.tune(relus()));
        CHECK(other.device.recorded.empty());
        CHECK_FALSE(other.tuning.has_choices());
        CHECK(other.tuning.summary().empty());
    }
}

TEST_CASE("what the budget does not suffice for is left to the estimate, also in later runs") {
    const TemporaryFolder folder;
    TuningOptions options = automatic(folder / "made");
    options.budget = 0;
    Card late(options, unsure);
    late.tune(relus());
    CHECK(late.device.recorded.empty());
    CHECK(late.variants() == "relu_forward 4096: slow\nrelu_forward 65536: slow\n");
    CHECK(late.tuning.summary() ==
          "tuned: 0 launches measured in 0.0 s; 2 by the estimate, since 0 s were over");

    Card later(automatic(folder / "made"), unsure);
    later.tune(relus());
    CHECK(later.device.recorded.empty());
    CHECK(later.variants() == late.variants());
    CHECK(later.tuning.summary() == "tuned: 0 launches measured in 0.0 s; 2 known already");
}

TEST_CASE("measuring a launch ends between two of its ways, and in the middle of their repetitions") {
    Plan plan = relus();
    const PlannedLaunch relu{&std::get<Launch>(plan.operations().front().work), &plan};
    const auto measured = [&](unsigned questions) {
        Choices choices;
        ManyWays device(choices);
        device.us = {{"slow", 100}, {"wrong", 1}, {"plain", 100}, {"dear", 100}};
        const Measuring how{.only_fastest = true, .is_over = [&] { return questions-- == 0; }};
        const std::vector<Measured> all =
            measure(device, choices, relu, device.candidates(*relu.launch), how);
        CHECK(choices.empty());
        return std::pair(all.size(), device.ran);
    };
    const auto [none, few] = measured(2);
    CHECK(none == 0);
    CHECK(few.contains("wrong"));
    CHECK_FALSE(few.contains("dear"));
    const auto [all, some] = measured(7); // six ways, and one in the first round
    CHECK(all == 6);
    CHECK(some.at("slow") > some.at("plain"));
}

TEST_CASE("what is tuned for one share serves its neighbours") {
    const TemporaryFolder folder;
    Card card(automatic(folder / "made"), unsure);
    // Micro-batches of two sizes: the larger one is measured.
    CHECK(card.tune(convolutions({12, 20})));
    const std::string chosen = card.variants();
    CHECK((chosen == "conv2d_forward 20: plain\n" || chosen == "conv2d_forward 20: dear\n"));
    card.device.recorded.clear();
    CHECK_FALSE(card.tune(convolutions({10, 40}))); // another tower's shares
    CHECK(card.device.recorded.empty());
    CHECK(card.variants() == chosen);
    CHECK(card.tune(convolutions({41})));
    CHECK_FALSE(card.device.recorded.empty());

    // A later run with another batch measures, one whose shares change all the time does not.
    Card later(automatic(folder / "made"), unsure);
    later.tune(convolutions({19}));
    CHECK_FALSE(later.device.recorded.empty());
    TuningOptions options = automatic(folder / "made");
    options.changing_shares = true;
    Card changing(options, unsure);
    CHECK(changing.tune(convolutions({18})));
    CHECK(changing.device.recorded.empty());
    CHECK(changing.variants().starts_with("conv2d_forward 18: "));

    // A resumed run has its own.
    test::write_text(folder / "own", card.tuning.to_json());
    options = automatic(folder / "made");
    options.known = folder / "own";
    Card resumed(options, unsure);
    CHECK_FALSE(resumed.tune(convolutions({20, 17})));
    CHECK(resumed.device.recorded.empty());
    CHECK(resumed.variants() == card.variants());
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
