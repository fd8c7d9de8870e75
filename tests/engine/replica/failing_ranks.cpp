// Towers and ranks that fail in a training of several ranks.
#include "backends/error.h"
#include "engine/clock.h"
#include "engine/ranks/courier.h"
#include "tests/engine/replica/rank_threads.h"
#include "tests/engine/train/overflows.h"
#include "tests/support/networks.h"
#include "tests/support/scripted_device.h"
#include "tests/support/thread_transport.h"

#include <chrono>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace towers {
namespace {

using test::averaged_recipe, test::both, test::changing_shares, test::Counts, test::global, test::Job,
    test::layouts, test::names_of, test::on_hosts, test::on_ranks, test::options_of, test::train_on,
    test::with_scripts;

} // namespace

TEST_CASE("a tower of any rank that fails is dropped, and the others repeat what it spoiled") {
    using Verb = test::Failure::Verb;
    const Dataset data = test::noise(50);
    unsigned lost = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const Counts counts = layouts[random() % 5];
        const auto towers = names_of(counts).size();
        const std::size_t victim = random() % towers;
        CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
        CAPTURE(victim);
        Job job{random() % 2 == 0 ? test::small_recipe() : test::smooth_recipe("\"batch\""),
                options_of(counts, global), data};
        job.options.outlive_devices = true;
        job.options.learning_rate = 0.01;
        switch (random() % 3) {
        case 0:
            job.options.shares.recorded = changing_shares(counts);
            break;
        case 1:
            job.options.shares.automatic = true;
            break;
        default:
            break;
        }
        test::Failure failure{.verb = Verb(random() % 4)};
        const std::uint64_t failing_step = random() % 6;
        const unsigned calls = random() % 4;
        std::vector<unsigned> hosts(counts.size());
        for (unsigned& host : hosts) host = random() % 3;
        CAPTURE(fmt::format("{}", fmt::join(hosts, " ")));
        const auto links = on_hosts(hosts, random() % 2 == 0 ? Wire::bf16 : Wire::fp32);
        job.adjust = both(links, with_scripts(counts, {{victim, test::failing(failure)}}));
        std::vector<StepReport> reports;
        std::string notices;
        TrainingState state;
        on_ranks(counts, job, [&](Trainer& trainer) {
            for (std::uint64_t i = 0; i < 6; ++i) {
                if (i == failing_step) failure.calls_left = calls;
                reports.push_back(trainer.step());
                notices += reports.back().notice;
                if (failure.lost) CHECK(reports.back().shares[victim] == 0);
            }
            state = trainer.save();
            CHECK(trainer.has_lost(victim) == failure.lost);
        });
        CAPTURE(notices);
        lost += failure.lost;
        const auto told = [&](const char* what) {
            return notices.find(fmt::format("tower_{} ({}) {}", victim, job.options.towers[victim], what)) !=
                   std::string::npos;
        };
        CHECK(failure.lost ==
              (told("failed and is dropped, and the others repeat the step: ") || told("cannot take")));
        // As if nothing had failed
        job.adjust = links;
        job.options.shares = {};
        for (const StepReport& report : reports)
            job.options.shares.recorded.push_back({report.step, report.shares});
        CHECK(train_on(counts, job, 6).state.state == state.state);
    }
    CHECK(lost > 30); // some verbs are not called again
}

TEST_CASE("several towers fail, some in the same step, and at last the run ends with the state from before") {
    const Dataset data = test::noise(50);
    const Counts counts{2, 1, 1};
    for (const Recipe& recipe : {test::small_recipe(), test::smooth_recipe("\"batch\"")})
        for (const bool in_trial : {false, true}) {
            CAPTURE(recipe.name);
            CAPTURE(in_trial);
            std::vector<test::Failure> failures(4);
            Job job{recipe, options_of(counts, global), data};
            job.options.outlive_devices = true;
            job.options.shares.automatic = in_trial;
            std::vector<std::pair<std::size_t, test::Script>> scripts;
            for (std::size_t i = 0; i < 4; ++i) scripts.emplace_back(i, test::failing(failures[i]));
            job.adjust = with_scripts(counts, scripts);
            on_ranks(counts, job, [&](Trainer& trainer) {
                if (!in_trial) CHECK(trainer.step().notice.empty());
                failures[1].lost = failures[2].lost = true;
                const std::string notice = trainer.step().notice;
                CAPTURE(notice);
                CHECK(notice.find("tower_1 (0/cpu) failed and is dropped") != std::string::npos);
                CHECK(notice.find("tower_2 (1/cpu) failed and is dropped") != std::string::npos);
                CHECK(trainer.last_shares()[1] == 0);
                CHECK(trainer.last_shares()[2] == 0);
                failures[0].lost = true;
                CHECK(trainer.step().notice.find("tower_0 (0/cpu) failed and is dropped") !=
                      std::string::npos);
                CHECK(trainer.last_shares() == std::vector{0u, 0u, 0u, global});
                const std::vector<float> before = trainer.save().state;
                failures[3].lost = true;
                CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("refused"), DeviceError);
                CHECK(trainer.save().state == before);
            });
        }
}

TEST_CASE("a tower that fails in a test pass is dropped, and all examples are still predicted") {
    const Dataset data = test::noise(50), tests = test::noise(30);
    const Counts counts{1, 2};
    for (const std::size_t victim : {0, 2}) {
        CAPTURE(victim);
        Job job{test::small_recipe(), options_of(counts, global), data, test::borrowed(tests)};
        job.options.outlive_devices = true;
        test::Failure failure;
        job.adjust = with_scripts(counts, {{victim, test::failing(failure)}});
        on_ranks(counts, job, [&](Trainer& trainer) {
            trainer.step();
            const std::optional<TestReport> whole = trainer.test(false);
            failure.calls_left = 0;
            const std::optional<TestReport> repeated = trainer.test(false);
            REQUIRE(whole);
            REQUIRE(repeated);
            CHECK(whole->notice.empty());
            const std::string name = fmt::format("tower_{} ({})", victim, job.options.towers[victim]);
            CHECK(repeated->notice.find(name +
                                        " failed and is dropped, and the others repeat the test pass") == 0);
            CHECK(repeated->evaluation.examples == 30);
            CHECK(repeated->evaluation.correct == whole->evaluation.correct);
            CHECK(repeated->evaluation.loss_sum == doctest::Approx(whole->evaluation.loss_sum).epsilon(1e-6));
            CHECK(trainer.step().shares[victim] == 0);
        });
    }
}

TEST_CASE("a tower of another rank that does not answer is dropped") {
    const Dataset data = test::noise(50);
    for (const Recipe& recipe : {test::small_recipe(), test::smooth_recipe("\"batch\"")}) {
        CAPTURE(recipe.name);
        const Counts counts{1, 1};
        const auto silence = std::make_shared<test::Silence>();
        Job job{recipe, options_of(counts, global), data};
        job.options.outlive_devices = true;
        const auto scripts = with_scripts(counts, {{1, test::hanging(silence)}});
        job.adjust = [&](TrainerOptions& options, unsigned rank) {
            scripts(options, rank);
            if (rank == 1) options.patience = Patience(1e6, test::time_of(silence));
        };
        on_ranks(counts, job, [&](Trainer& trainer) {
            for (int i = 0; i < 3; ++i) CHECK(trainer.step().notice.empty());
            silence->begin({1e6, 1e6});
            const StepReport report = trainer.step();
            CHECK(silence->is_over());
            CHECK(report.notice.find("tower_1 (1/cpu) failed") == 0);
            CHECK(report.shares == std::vector{global, 0u});
            CHECK(trainer.step().notice.empty());
            silence->end();
            CHECK(trainer.step().notice.empty());
        });
    }
}

TEST_CASE("a device of another rank that is lost before the first step is dropped in it") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 2};
    for (const bool automatic : {false, true}) {
        CAPTURE(automatic);
        Job job{test::small_recipe(), options_of(counts, global), data};
        job.options.outlive_devices = true;
        job.options.shares.automatic = automatic;
        job.adjust = [](TrainerOptions& options, unsigned rank) {
            options.open_device = [rank, opened = 0](std::string_view id, const OpenOptions& open) mutable {
                if (rank == 1 && opened++ == 0) throw DeviceLost("gpu: does not work");
                return open_device(id, open);
            };
        };
        on_ranks(counts, job, [&](Trainer& trainer) {
            const StepReport report = trainer.step();
            CHECK(report.notice.find("tower_1 (1/cpu) failed and is dropped, and the others repeat the step: "
                                     "gpu: does not work") != std::string::npos);
            CHECK(report.shares[0] + report.shares[2] == global);
            CHECK(trainer.has_lost(1));
        });
    }
}

TEST_CASE("a rank that is cut off ends the others' waiting, at whatever moment of a step") {
    const Dataset data = test::noise(50);
    const Counts counts{1, 2, 1};
    for (const unsigned cut : {0u, 1u, 2u}) {
        CAPTURE(cut);
        Job job{averaged_recipe(), options_of(counts, global), data};
        if (cut > 0) job.adjust = on_hosts({0, 1, 1});
        job.wires = test::make_wires(3);
        job.silence = 0.8;
        const auto begin = Clock::now();
        std::thread cutter([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            test::cut(*job.wires, cut);
        });
        std::optional<PeerGone> gone;
        try {
            on_ranks(counts, job, [&](Trainer& trainer) {
                while (trainer.steps_done() < 1'000'000) trainer.step();
            });
        } catch (const PeerGone& its) {
            gone = its;
        }
        cutter.join();
        REQUIRE(gone);
        CHECK(seconds_since(begin) < 5);
    }
}

TEST_CASE("a step that diverges names its tower on its rank and leaves the state") {
    // The second example of a batch is bright, and only its loss is not finite.
    const Dataset data = test::pixels({1, 255});
    for (const Counts& counts : {Counts{1, 1}, Counts{2, 2}}) {
        CAPTURE(fmt::format("{}", fmt::join(counts, " ")));
        const auto towers = unsigned(names_of(counts).size());
        Job job{test::pixel_recipe(), test::in_order(names_of(counts), towers), data};
        job.options.open_device = open_device;
        job.options.shares.recorded = {{0, std::vector<unsigned>(towers, 1)}};
        const Dataset pixels = test::pixels(towers == 2 ? std::vector<std::uint8_t>{0, 255}
                                                        : std::vector<std::uint8_t>{0, 0, 0, 255});
        const Job on_pixels{job.recipe, job.options, pixels};
        on_ranks(counts, on_pixels, [&](Trainer& trainer) {
            TrainingState state{.state = initial_state(trainer.layout(), 3)};
            part(std::span(state.state), trainer.layout().find("logits/weights").range)[0] = 3e38f;
            trainer.load(state);
            try {
                trainer.step();
                FAIL_CHECK("it did not diverge");
            } catch (const Diverged& diverged) {
                const std::string message = diverged.what();
                CAPTURE(message);
                CHECK(message.find(fmt::format("the loss of tower_{} (1/cpu)", towers - 1)) !=
                      std::string::npos);
                CHECK(diverged.of.tower == towers - 1);
                CHECK(diverged.of.batch.examples.size() == 1);
                CHECK(diverged.of.batch.examples[0].record == towers - 1);
            }
            CHECK(trainer.save().state == state.state);
            CHECK(trainer.steps_done() == 0);
        });
    }
}

} // namespace towers
