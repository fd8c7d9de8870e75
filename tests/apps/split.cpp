// However the devices share the work, it must be the same training.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Trains 10 steps of the same global batch of 12 in one way and in others, and compares the parameters.
void check_splits(const std::vector<Arguments>& others) {
    // Gradients agree to about 1e-6. But where two inputs of a pooling are equal to within rounding, another
    // order of sums picks the other one, and the runs part: about one run in four has such a tie and ends up
    // to 1e-3 away. A wrong split is wrong with any seed, so one seed without a tie is proof.
    std::vector<double> closest(others.size(), 1);
    for (const char* seed : {"1", "2", "3"}) {
        const TemporaryFolder folder;
        const Arguments flags{"--steps", "10", "--seed", seed};
        train(folder / "one", flags + Arguments{"--batch", "12"});
        for (std::size_t i = 0; i < others.size(); ++i) {
            const fs::path run = folder / ("other" + std::to_string(i));
            train(run, flags + others[i]);
            for (const bool averages : {false, true}) {
                const double distance =
                    relative_distance(variables(checkpoint(run, 10), averages),
                                      variables(checkpoint(folder / "one", 10), averages));
                CAPTURE(seed);
                CAPTURE(i);
                CHECK(distance < 1e-2);
                if (!averages) closest[i] = std::min(closest[i], distance);
            }
        }
    }
    for (const double distance : closest) {
        MESSAGE("relative distance ", distance);
        CHECK(distance < 1e-5);
    }
}

} // namespace

TEST_CASE("any split of the global batch over CPU towers trains the same parameters") {
    check_splits({{"--batch", "6", "--towers", "cpu,cpu"},
                  {"--batch", "4", "--towers", "cpu,cpu,cpu", "--shares", "6:5:1"}});
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

TEST_SUITE("slow") {
    TEST_CASE("any split over devices of several kinds trains the same parameters") {
        const std::string other = quick_device();
        if (other.empty()) return;
        check_splits({{"--batch", "6", "--towers", "cpu," + other},
                      {"--batch", "4", "--towers", "cpu," + other + ",cpu", "--shares", "3:2:1"}});
    }

    TEST_CASE("every device begins with the CPU's losses") {
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
