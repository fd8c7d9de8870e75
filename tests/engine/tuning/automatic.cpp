// Tuning that is on by default: on cards, where the estimate is unsure, and as much as there is time for.
#include "engine/tuning/tuning.h"

#include "tests/engine/tuning/many_ways.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <limits>
#include <utility>

namespace towers {

using test::ManyWays;
using test::relus;
using test::TemporaryFolder;

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

TEST_CASE("a slow device leaves the others their time") {
    TuningOptions options = automatic();
    options.budget = 0.5;
    Tuning tuning(options);
    ManyWays slow(tuning.choices("cuda:0")), fast(tuning.choices("vulkan:0"));
    slow.pause = std::chrono::milliseconds(600);
    const Plan plan = relus();
    const Plan* const plans[] = {&plan};
    for (const auto& [id, device] :
         {std::pair<const char*, ManyWays*>("cuda:0", &slow), {"vulkan:0", &fast}}) {
        DeviceInfo info = device->info();
        info.id = info.name = id;
        info.kind = DeviceKind::discrete_gpu;
        device->set_info(info);
        device->costs = unsure;
        tuning.opened(info);
        tuning.tune(*device, plans, nullptr);
    }
    CHECK(slow.ran.size() <= 1);
    CHECK(fast.ran.contains("plain"));
    CHECK(tuning.summary().find("tuned: 2 launches measured") == 0);
    CHECK(tuning.summary().find("; 2 by the estimate, since ") != std::string::npos);
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
    const auto [none, few] = measured(3);
    CHECK(none == 0);
    CHECK(few.contains("wrong"));
    CHECK_FALSE(few.contains("dear"));
    const auto [all, some] = measured(8); // before all, six ways, and one in the first round
    CHECK(all == 6);
    CHECK(some.at("slow") > some.at("plain"));
}

TEST_CASE("what is tuned for one share serves its neighbours") {
    const TemporaryFolder folder;
    Card card(automatic(folder / "made"), unsure);
    // Micro-batches of two sizes: the larger one is measured.
    CHECK(card.tune(convolutions({12, 20})));
    const std::string chosen = card.variants();
    CHECK(chosen == "conv2d_forward 20: plain\n");
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

} // namespace towers
