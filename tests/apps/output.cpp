// Scripts of the published system read its log lines; people watch the live line.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* timestamp = R"(^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: )";

const std::regex log_line(std::string(timestamp) +
                          R"(step (\d+), loss = \d+\.\d\d \(\d+\.\d examples/sec; \d+\.\d{3} sec/batch\)$)");

std::vector<int> logged_steps(const std::string& out) {
    std::vector<int> steps;
    for (const std::string& line : lines_of(out)) {
        std::smatch match;
        if (std::regex_search(line, match, log_line)) steps.push_back(std::stoi(match[1]));
    }
    return steps;
}

} // namespace

TEST_CASE("log lines work with a clock before 1970") {
    const TemporaryFolder folder;
    const Outcome outcome = run_towers(
        {"train", "--towers", "cpu", "--batch", "2", "--steps", "1", "--run", (folder / "run").string()},
        {.environment = {{"LD_PRELOAD", TOWERS_OLD_CLOCK}, {"TZ", "UTC"}}});
    CAPTURE(outcome.err);
    CHECK(contains(outcome.out, "1969-12-31 20:34:14.750000: step 0, loss = "));
}

TEST_CASE("the log has the tutorial's lines") {
    const TemporaryFolder folder;
    // Without a terminal, the log is the default.
    for (const Arguments& flags : {Arguments{}, Arguments{"--progress", "log"}}) {
        const fs::path run = folder / ("run" + std::to_string(flags.size()));
        const Outcome outcome = run_towers(Arguments{"train", "--towers", "cpu", "--steps", "9", "--batch",
                                                     "4", "--log-every", "4", "--run", run.string()} +
                                           flags);
        check_worked(outcome);
        CAPTURE(outcome.out);
        CHECK(logged_steps(outcome.out) == std::vector<int>{0, 4, 8});
        CHECK(metrics(run).size() == 3);
        CHECK(contains(outcome.out, "done: saved " + checkpoint(run, 9).string()));
        CHECK(contains(outcome.out, "evaluate with: " TOWERS_PROGRAM " eval " + run.string()));
        CHECK_FALSE(contains(outcome.out, "\r"));
    }
    CHECK(logged_steps(train(folder / "default", {"--steps", "12", "--batch", "2", "--log-every", "10"})) ==
          std::vector<int>{0, 10});
    CHECK(logged_steps(train(folder / "none", {"--steps", "3", "--batch", "2", "--log-every", "0"})).empty());
    CHECK(metrics(folder / "none").size() == 1); // with the shares and micro-batches of all steps
}

TEST_CASE("--log-towers adds each tower's loss") {
    const TemporaryFolder folder;
    const std::string out =
        train(folder / "run", {"--towers", "cpu,cpu", "--steps", "3", "--batch", "2", "--log-towers"});
    CAPTURE(out);
    CHECK(logged_steps(out) == std::vector<int>{0, 1, 2});
    const std::regex expected(std::string(timestamp) +
                              R"(step \d+, tower_0 loss = \d+\.\d\d, tower_1 loss = \d+\.\d\d$)");
    int found = 0;
    for (const std::string& line : lines_of(out)) found += std::regex_search(line, expected);
    CHECK(found == 3);
    const auto has_losses = [&](const char* run, const char* word) {
        return contains(train(folder / run, {"--steps", "1", "--batch", "2", "--log-towers", word}),
                        "tower_0 loss");
    };
    CHECK(has_losses("on", "on"));
    CHECK_FALSE(has_losses("off", "off"));
    CHECK(contains(out, "tower_0: cpu "));
    CHECK(contains(out, "tower_1: cpu "));
}

TEST_CASE("the live line is updated in place and shows what people look for") {
    const TemporaryFolder folder;
    const std::string out = train(folder / "run", {"--steps", "40", "--batch", "8", "--progress", "live"});
    CAPTURE(out);
    const std::regex expected(R"(\rstep 40/40  \d+\.\d examples/s  loss \d+\.\d{3}  lr 0\.1  0 s left)");
    CHECK(std::regex_search(out, expected));
    CHECK(contains(out, "\rstep 1/40 "));
    CHECK(logged_steps(out).empty());
    CHECK(lines_of(out).size() == 4); // the tower, the live line, two lines at the end
    CHECK(metrics(folder / "run").size() == 40);
}

TEST_CASE("the log counts every example of all towers") {
    const TemporaryFolder folder;
    const std::string out = train(folder / "run", {"--towers", "cpu,cpu", "--steps", "3", "--batch", "32"});
    const std::regex numbers(R"(\((\d+\.\d) examples/sec; (\d+\.\d{3}) sec/batch\))");
    int found = 0;
    for (const std::string& line : lines_of(out)) {
        std::smatch match;
        if (!std::regex_search(line, match, numbers)) continue;
        ++found;
        const double expected = 64 / std::stod(match[1]), seconds = std::stod(match[2]);
        CHECK(std::abs(seconds - expected) < 0.0006 + 0.01 * expected); // printed with three decimals
    }
    CHECK(found == 3);
}

TEST_CASE("a NaN loss ends the run, and the error names the last good checkpoint") {
    for (const std::string device : {"cpu", "cpu,cpu"}) {
        CAPTURE(device);
        const TemporaryFolder folder;
        const std::string run = (folder / "run").string();
        // Step 0 changes the parameters so much that step 1 has no finite loss: checkpoint 1 is bad.
        const Outcome outcome =
            run_towers(Arguments{"train", "--towers", device, "--steps", "5", "--batch", "2", "--lr", "1e30",
                                 "--log-every", "1", "--save-every", "1", "--keep", "1", "--run", run} +
                       small_data());
        check_failed(outcome, 1, "Model diverged with loss");
        CHECK(contains(outcome.err, "tower_0 (cpu)"));
        CHECK(contains(outcome.err, "in step 1"));
        const std::string good = checkpoint(run, 0).string();
        CHECK(contains(outcome.err, good + ": go on from it with --resume-from 0"));
        CHECK(metrics(run).size() == 1);
        REQUIRE(fs::exists(good));
        check_worked(run_towers({"eval", "--towers", "cpu", "--checkpoint", good}));

        // A plain --resume fails again, with the same message.
        const Outcome again = run_towers({"train", "--resume", "--run", run});
        check_failed(again, 1, good + ": go on from it with --resume-from 0");
        // The command in the message works, and nothing is lost.
        const std::string bad_bytes = read_text(checkpoint(run, 1)),
                          lines = read_text(fs::path(run) / "metrics.jsonl");
        const Outcome resumed =
            run_towers({"train", "--resume-from", "0", "--lr", "0.01", "--steps", "2", "--run", run});
        check_worked(resumed);
        CHECK(contains(resumed.out, "changed: lr from 1e+30 to 0.01"));
        CHECK(contains(resumed.out,
                       "moved later checkpoints and a copy of the metrics to " + run + "/replaced-1"));
        CHECK(metrics(run).size() == 2);
        const bool kept = read_text(checkpoint(run + "/replaced-1", 1)) == bad_bytes;
        CHECK(kept);
        CHECK(read_text(fs::path(run) / "replaced-1/metrics.jsonl") == lines);
        check_failed(run_towers({"train", "--resume-from", "7", "--run", run}), 1,
                     "no checkpoint of step 7; choose one of ");
    }
}

TEST_CASE("a run that diverges in its first step offers no checkpoint") {
    const TemporaryFolder folder;
    train(folder / "first", {"--steps", "1", "--batch", "2"});
    RawTensors file = RawTensors::read(checkpoint(folder / "first", 1));
    file.forget_checksum();
    const std::size_t begin = file.header["softmax_linear/weights"]["data_offsets"][0];
    for (std::size_t i = 0; i < 1920 * sizeof(float); i += sizeof(float)) // finite, but the loss is infinite
        file.data.replace(begin + i, sizeof(float), i % 8 == 0 ? "\xff\xff\x7f\x7f" : "\xff\xff\x7f\xff");
    write_text(folder / "huge.safetensors", file.bytes());
    const Outcome outcome =
        run_towers({"train", "--towers", "cpu", "--steps", "5", "--batch", "2", "--init",
                    (folder / "huge.safetensors").string(), "--run", (folder / "run").string()});
    check_failed(outcome, 1, "in step 0; try a smaller --lr; ");
    CHECK(contains(outcome.err, "; the run has no earlier checkpoint, so start another run\n"));
}
