// The precision that is reported must be that of the whole test set, each image counted once.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cmath>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

struct Result {
    double precision = -1;
    unsigned correct = 0, examples = 0;
    double cross_entropy = -1;
};

/// Checks the form of what eval prints and takes the numbers from it.
Result evaluate(const Arguments& flags) {
    const Outcome outcome = run_towers(Arguments{"eval", "--device", "cpu"} + flags);
    check_worked(outcome);
    CAPTURE(outcome.out);
    const std::vector<std::string> lines = lines_of(outcome.out);
    REQUIRE(lines.size() == 2);
    const std::regex first(R"(^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: precision @ 1 = ([01]\.\d{3})$)");
    const std::regex second(R"(^(\d+) of (\d+) examples, cross entropy (\d+\.\d{3}), .*$)");
    std::smatch a, b;
    REQUIRE(std::regex_match(lines[0], a, first));
    REQUIRE(std::regex_match(lines[1], b, second));
    const Result result{std::stod(a[1]), unsigned(std::stoul(b[1])), unsigned(std::stoul(b[2])),
                        std::stod(b[3])};
    CHECK(std::abs(result.precision - double(result.correct) / result.examples) < 0.0006);
    return result;
}

} // namespace

TEST_CASE("the evaluation counts every example once, whatever its batch") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "20", "--batch", "16"});
    const Arguments it{"--run", run.string()};

    const Result result = evaluate(it);
    CHECK(result.examples == 2000);
    for (const char* batch : {"300", "5000"}) {
        const Result other = evaluate(it + Arguments{"--batch", batch});
        CHECK(other.examples == 2000);
        CHECK(other.correct <= result.correct + 1); // another order of sums may turn a tie
        CHECK(result.correct <= other.correct + 1);
    }
    CHECK(evaluate({"--checkpoint", checkpoint(run, 20).string()}).correct == result.correct);
    CHECK(evaluate(it + Arguments{"--split", "train"}).examples == 10000);

    // The published system's padding comes back when asked for: the last of 16 batches of 128 is filled up.
    CHECK(evaluate(it + Arguments{"--quirks", "padded-evaluation"}).examples == 2048);
    CHECK(evaluate(it + Arguments{"--quirks", "padded-evaluation", "--batch", "500"}).examples == 2000);

    // The variables themselves are far from their averages early in a training.
    const Result raw = evaluate(it + Arguments{"--raw"});
    CHECK(raw.examples == 2000);
    CHECK(raw.cross_entropy != result.cross_entropy);
}

TEST_CASE("the evaluation uses the run's data and its latest checkpoint") {
    const TemporaryFolder folder;
    write_records(folder / "data", 3);
    const fs::path run = folder / "run";
    train(run, {"--steps", "11", "--batch", "2", "--save-every", "3", "--data", (folder / "data").string()});
    const Outcome outcome = run_towers({"eval", "--device", "cpu", "--run", run.string()});
    check_worked(outcome);
    CHECK(contains(outcome.out, " of 3 examples"));
    CHECK(contains(outcome.out, "step 11, moving averages")); // not 9, which sorts behind 11 as text
}

TEST_CASE("a trained model does better than chance") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "60", "--batch", "32", "--distort", "off"});
    CHECK(evaluate({"--run", run.string(), "--raw"}).precision > 0.15);
}

TEST_SUITE("slow") {
    TEST_CASE("every device evaluates alike") {
        const TemporaryFolder folder;
        write_records(folder / "data", 10);
        const fs::path run = folder / "run";
        train(run, {"--steps", "10", "--batch", "8", "--data", (folder / "data").string()});
        const Result expected = evaluate({"--run", run.string(), "--raw"});
        for (const std::string& id : other_devices()) {
            CAPTURE(id);
            const Outcome outcome = run_towers({"eval", "--device", id, "--run", run.string(), "--raw"});
            check_worked(outcome);
            std::smatch match;
            REQUIRE(std::regex_search(outcome.out, match,
                                      std::regex(R"(of 10 examples, cross entropy (\d+\.\d{3}))")));
            CHECK(std::stod(match[1]) == doctest::Approx(expected.cross_entropy).epsilon(2e-3));
        }
    }
}
