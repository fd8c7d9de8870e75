// To compare with the published system, each of its defects must be reproducible exactly and alone.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cmath>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The same run without a quirk and with it.
struct Pair {
    TemporaryFolder folder;
    std::string out_plain, out_quirk;

    Pair(const char* quirk, const Arguments& flags) {
        out_plain = train(plain(), flags);
        out_quirk = train(quirked(), flags + Arguments{"--quirks", quirk});
    }
    fs::path plain() const { return folder / "plain"; }
    fs::path quirked() const { return folder / "quirked"; }
    bool same(unsigned step, bool averages) const {
        return variables(checkpoint(plain(), step), averages) ==
               variables(checkpoint(quirked(), step), averages);
    }
};

} // namespace

TEST_CASE("last-tower-loss reports the last tower's loss and trains the same") {
    const Pair pair("last-tower-loss",
                    {"--towers", "cpu,cpu", "--shares", "even", "--steps", "4", "--batch", "4"});
    CHECK(pair.same(4, false));
    CHECK(pair.same(4, true));
    const auto plain = metrics(pair.plain()), quirked = metrics(pair.quirked());
    for (std::size_t i = 0; i < 4; ++i) {
        const std::vector<double> losses = quirked[i].at("tower_losses");
        CHECK(losses == plain[i].at("tower_losses").get<std::vector<double>>());
        REQUIRE(losses.size() == 2);
        CHECK(losses[0] != losses[1]);
        CHECK(quirked[i].at("loss") == losses[1]);
        CHECK(plain[i].at("loss").get<double>() ==
              doctest::Approx((losses[0] + losses[1]) / 2).epsilon(1e-6));
    }
}

TEST_CASE("step-schedule decays the learning rate by steps, however many towers share them") {
    const TemporaryFolder data;
    write_records(data / "data", 1); // 5 training examples, so that 350 epochs are 1750 examples
    const Pair pair("step-schedule", {"--towers", "cpu,cpu", "--shares", "even", "--batch", "125", "--steps",
                                      "15", "--distort", "off", "--data", (data / "data").string()});
    const auto plain = metrics(pair.plain()), quirked = metrics(pair.quirked());
    for (std::size_t i = 0; i < 15; ++i) {
        CAPTURE(i);
        // With 250 examples a step, the seventh step completes 350 epochs. Counted in steps of 125, it
        // takes 14.
        CHECK(plain[i].at("learning_rate").get<double>() == doctest::Approx(i < 7    ? 0.1
                                                                            : i < 14 ? 0.01
                                                                                     : 0.001));
        CHECK(quirked[i].at("learning_rate").get<double>() == doctest::Approx(i < 14 ? 0.1 : 0.01));
    }
    CHECK_FALSE(pair.same(15, false));
}

TEST_CASE("unordered-average averages the parameters from before the update") {
    for (const char* device : {"cpu", "cpu,cpu"}) {
        CAPTURE(device);
        const Pair pair("unordered-average",
                        {"--towers", device, "--shares", "even", "--steps", "1", "--batch", "4"});
        CHECK(pair.same(1, false));
        CHECK_FALSE(pair.same(1, true));
        // The first update averages the initial values with themselves.
        const TemporaryFolder folder;
        train(folder / "start", {"--steps", "0"});
        CHECK(relative_distance(variables(checkpoint(pair.quirked(), 1), true),
                                variables(checkpoint(folder / "start", 0))) < 1e-6);
    }
}

TEST_CASE("divided-batch-time divides the logged seconds by the number of towers") {
    const Pair pair("divided-batch-time",
                    {"--towers", "cpu,cpu", "--shares", "even", "--steps", "3", "--batch", "64"});
    CHECK(pair.same(3, false));
    const std::regex numbers(R"(\((\d+\.\d) examples/sec; (\d+\.\d{3}) sec/batch\))");
    const auto check = [&](const std::string& out, double examples) {
        std::smatch match;
        REQUIRE(std::regex_search(out, match, numbers));
        const double expected = examples / std::stod(match[1]), seconds = std::stod(match[2]);
        CHECK(std::abs(seconds - expected) < 0.0006 + 0.01 * expected); // printed with three decimals
    };
    check(pair.out_plain, 128);
    check(pair.out_quirk, 64);
}

TEST_CASE("a resumed run keeps its quirks") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--towers", "cpu,cpu", "--shares", "even", "--steps", "2", "--batch", "2", "--quirks",
                "last-tower-loss,unordered-average"});
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"}));
    const auto lines = metrics(run);
    REQUIRE(lines.size() == 4);
    CHECK(lines[3].at("loss") == lines[3].at("tower_losses")[1]);
}
