// The training must not depend on how devices share the work.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

struct Split {
    const char* joined; ///< the batch of one tower
    Arguments flags;    ///< the flags of several towers that share it
};

/// Ten steps on one tower and on several that share its batch must end with the same parameters.
///
/// From the same parameters their gradients agree to 1e-6. But ReLUs and max poolings have kinks. If an
/// activation, or the gap between a window's two largest values, lies within rounding of zero, another
/// summation order lands on the other side, and a gradient takes another path. Seen in batches of 12:
/// 0.286566019 and 0.286565989 in one window of pool1 were equal on the other tower, and a value of conv2
/// was 1.7e-7 on one and 0 on the other. The gradients of these steps were 3e-4 and 1e-3 of their norm apart,
/// and only 6e-7 after the other tower's place and sign were substituted. Later steps widen such a gap: after
/// ten steps it was 3e-4 of the parameters' norm. In a batch of 128 one example weighs a tenth of that: in 48
/// runs (CPU alone and with lavapipe, two and three towers, 8 and 16 seeds) the parameters ended 1e-8
/// to 2.3e-5 apart. One wrong example in each step makes 3e-4.
void check_splits(const std::vector<Split>& splits) {
    for (const Split& split : splits) {
        const TemporaryFolder folder;
        train(folder / "one", {"--steps", "10", "--batch", split.joined});
        train(folder / "split", split.flags + Arguments{"--steps", "10"});
        for (const bool averages : {false, true}) {
            const double distance = relative_distance(variables(checkpoint(folder / "split", 10), averages),
                                                      variables(checkpoint(folder / "one", 10), averages));
            CAPTURE(split.flags.back());
            MESSAGE("relative distance ", distance);
            CHECK(distance < 1e-4);
        }
    }
}

} // namespace

TEST_CASE("CPU towers with any shares of the global batch train the same parameters") {
    check_splits({{"128", {"--batch", "64", "--shares", "even", "--towers", "cpu,cpu"}},
                  {"126", {"--batch", "42", "--towers", "cpu,cpu,cpu", "--shares", "3:2:1"}}});
}

TEST_CASE("shares are ratios, however large their numbers") {
    const TemporaryFolder folder;
    for (const char* shares : {"1e308:1e308", "1:1", "1e-320:1e-320"}) {
        const std::string out = train(
            folder / shares, {"--towers", "cpu,cpu", "--batch", "8", "--shares", shares, "--steps", "0"});
        CAPTURE(out);
        for (const std::string tower : {"tower_0: ", "tower_1: "})
            CHECK(std::ranges::any_of(lines_of(out), [&](const std::string& line) {
                return line.starts_with(tower) && line.ends_with("), 8 examples a step");
            }));
    }
}

TEST_CASE("blanks around shares and devices do not matter") {
    const TemporaryFolder folder;
    const std::string out =
        train(folder / "run", {"--towers", "cpu, cpu", "--batch", "8", "--shares", "1 : 3 ", "--steps", "0"});
    CHECK(contains(out, "), 4 examples a step"));
    CHECK(contains(out, "), 12 examples a step"));
    CHECK(contains(read_text(folder / "run" / "config.toml"), "towers = 'cpu,cpu'\n"));
}

TEST_CASE("the loss of a step is the mean over all examples") {
    const TemporaryFolder folder;
    train(folder / "one", {"--steps", "3", "--batch", "12"});
    train(folder / "two", {"--steps", "3", "--batch", "6", "--towers", "cpu,cpu", "--shares", "5:1"});
    const auto one = metrics(folder / "one"), two = metrics(folder / "two");
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(two[i].at("loss").get<double>() ==
              doctest::Approx(one[i].at("loss").get<double>()).epsilon(1e-4));
        const std::vector<double> parts = two[i].at("tower_losses");
        REQUIRE(parts.size() == 2);
        CHECK(two[i].at("loss").get<double>() ==
              doctest::Approx((10 * parts[0] + 2 * parts[1]) / 12).epsilon(1e-5));
    }
}

TEST_CASE("a step in micro-batches gives the same results") {
    const TemporaryFolder folder;
    train(folder / "whole", {"--steps", "2", "--batch", "10"});
    const std::string out = train(folder / "split", {"--steps", "2", "--batch", "10", "--micro-batch", "4"});
    CHECK(contains(out, "), 10 examples a step in 3 micro-batches of up to 4 examples\n"));
    CHECK(contains(read_text(folder / "split" / "config.toml"), "micro-batch = 4\n"));
    const auto whole = metrics(folder / "whole"), split = metrics(folder / "split");
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(split[i].at("loss").get<double>() ==
              doctest::Approx(whole[i].at("loss").get<double>()).epsilon(1e-4));
    const std::string resumed = run_towers({"train", "--run", (folder / "split").string(), "--resume",
                                            "--micro-batch", "5", "--steps", "3"})
                                    .out;
    CHECK(contains(resumed, " in 2 micro-batches of up to 5 examples\n"));
    CHECK(contains(resumed, "changed: micro-batch from 4 to 5\n"));
}

TEST_SUITE("slow") {
    TEST_CASE("different devices with any shares train the same parameters") {
        const std::string other = quick_device();
        if (other.empty()) return;
        check_splits({{"128", {"--batch", "64", "--shares", "even", "--towers", "cpu," + other}},
                      {"126", {"--batch", "42", "--towers", "cpu," + other + ",cpu", "--shares", "3:2:1"}}});
    }

    TEST_CASE("every device starts with the CPU's losses") {
        const TemporaryFolder folder;
        const Arguments flags{"--steps", "10", "--batch", "8", "--seed", "4", "--distort", "on"};
        train(folder / "cpu", flags);
        const auto expected = metrics(folder / "cpu");
        for (const std::string& id : other_devices()) {
            CAPTURE(id);
            const fs::path run = folder / ("device-" + id);
            train(run, flags + Arguments{"--towers", id});
            const auto actual = metrics(run);
            REQUIRE(actual.size() == 10);
            double worst = 0;
            for (std::size_t i = 0; i < 10; ++i) {
                const double a = actual[i].at("loss"), e = expected[i].at("loss");
                worst = std::max(worst, std::abs(a - e) / e);
            }
            MESSAGE(id, ": largest relative difference of a loss ", worst);
            CHECK(worst < 1e-3);
        }
    }
}
