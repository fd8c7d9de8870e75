// A trace of a run's last steps, as a file that a timeline viewer opens; and the table of what each tower
// did.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

using namespace towers::test;

namespace {

std::set<std::uint64_t> steps_in(const std::filesystem::path& trace) {
    std::set<std::uint64_t> steps;
    const nlohmann::json parsed = nlohmann::json::parse(read_text(trace));
    for (const nlohmann::json& event : parsed.at("traceEvents"))
        if (event.at("ph") == "X") steps.insert(event.at("args").at("step").get<std::uint64_t>());
    return steps;
}

Outcome train_traced(const std::filesystem::path& run, const Arguments& flags) {
    return run_towers(
        Arguments{"train", "--towers", "cpu,cpu", "--threads", "1", "--batch", "4", "--run", run.string()} +
        flags);
}

} // namespace

TEST_CASE("--trace writes the last steps, also into the run's folder, and says so last") {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder / "run" / "trace.json";
    const Outcome outcome =
        train_traced(folder / "run", {"--steps", "6", "--trace", file.string(), "--trace-steps", "2"});
    check_worked(outcome);
    CHECK(lines_of(outcome.out).back() ==
          "trace of steps 4 to 5: " + file.string() + " (https://ui.perfetto.dev shows it)");
    CHECK(steps_in(file) == std::set<std::uint64_t>{4, 5});
    // However the paths are written
    check_worked(train_traced((folder / "other").string() + "/",
                              {"--steps", "1", "--trace", (folder / "." / "other" / "trace.json").string()}));
    CHECK(steps_in(folder / "other" / "trace.json") == std::set<std::uint64_t>{0});
    // A resumed run writes it anew.
    check_worked(run_towers(
        {"train", "--run", (folder / "run").string(), "--resume", "--steps", "9", "--trace", file.string()}));
    CHECK(steps_in(file) == std::set<std::uint64_t>{6, 7, 8});
}

TEST_CASE("a run that diverges leaves its trace, and one line of error") {
    const TemporaryFolder folder;
    const std::filesystem::path file = folder / "trace.json";
    const Outcome outcome =
        train_traced(folder / "run", {"--steps", "6", "--lr", "1e30", "--trace", file.string()});
    check_failed(outcome, 1, "Model diverged");
    CHECK(contains(outcome.out, "trace of steps 0 to 1: "));
    CHECK(steps_in(file) == std::set<std::uint64_t>{0, 1});
}

TEST_CASE("a trace that cannot be written is said before the run begins") {
    const TemporaryFolder folder;
    const auto refused = [&](const Arguments& flags, int code, std::string_view message) {
        check_failed(train_traced(folder / "run", Arguments{"--steps", "2"} + flags), code, message);
        CHECK(!std::filesystem::exists(folder / "run"));
    };
    refused({"--trace", folder.path().string()}, 2,
            "towers: --trace '" + folder.path().string() + "': is a folder; give a file");
    refused({"--trace", (folder / "none" / "trace.json").string()}, 2, (folder / "none").string());
    refused({"--trace", (folder / "run").string()}, 2, "is a folder; give a file");
    refused({"--trace", (folder / std::string(300, 'x')).string()}, 2, "File name too long");
    refused({"--trace", "-"}, 2, "--trace '-': the log is there; give a file");
    for (const char* name :
         {"model.ckpt-2.safetensors", "config.toml", "recipe.toml", "metrics.jsonl", "lock"})
        refused({"--trace", (folder / "run" / name).string()}, 2, "the run has a file of this name");
    refused({"--trace-steps", "3"}, 2, "--trace-steps: name the file to write with --trace FILE");
    refused({"--trace", (folder / "t").string(), "--trace-steps", "0"}, 2, "--trace-steps");
}

TEST_CASE("SIGUSR1 asks for the table, and does no harm to a run that still starts") {
    const TemporaryFolder folder;
    Program program(
        towers_command({"train", "--towers", "cpu,cpu", "--threads", "1", "--batch", "4", "--steps", "100000",
                        "--log-every", "1", "--run", (folder / "run").string()}));
    REQUIRE(program.wait_for_lines("tower_1: cpu", 1));
    program.send(SIGUSR1);
    REQUIRE(program.wait_for_lines("step 1,", 1));
    program.send(SIGUSR1);
    REQUIRE(program.wait_for_lines("of the sum of their rates while at work", 1));
    program.send(SIGINT);
    check_worked(program.end());
}

TEST_CASE("SIGUSR1 has a single tower say how it does") {
    const TemporaryFolder folder;
    Program program(towers_command({"train", "--towers", "cpu", "--threads", "1", "--batch", "4", "--steps",
                                    "100000", "--log-every", "1", "--run", (folder / "run").string()}));
    REQUIRE(program.wait_for_lines("step 1,", 1));
    program.send(SIGUSR1);
    REQUIRE(program.wait_for_lines("tower_0 (cpu): step ", 1));
    program.send(SIGINT);
    const Outcome outcome = program.end();
    check_worked(outcome);
    const std::regex line(R"(\ntower_0 \(cpu\): step \d+, \d+\.\d examples/s of \d+ examples, \d+ MiB\n)");
    CHECK(std::regex_search(outcome.out, line));
}

TEST_CASE("a run that fails shows the table too") {
    const TemporaryFolder folder;
    const Outcome outcome = run_towers({"train", "--towers", "cpu,cpu", "--threads", "1", "--batch", "2",
                                        "--lr", "1e30", "--steps", "5", "--run", (folder / "run").string()});
    check_failed(outcome, 1, "the loss of tower_0 (cpu) is infinite or NaN");
    CHECK(contains(outcome.out, "of the sum of their rates while at work"));
}

TEST_CASE("a trace goes into a device, which stays one") {
    const TemporaryFolder folder;
    check_worked(train_traced(folder / "run", {"--steps", "1", "--trace", "/dev/null"}));
    CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("the table says how each tower spent the time, and config.toml the last shares") {
    const TemporaryFolder folder;
    const Outcome outcome = train_traced(folder / "run", {"--steps", "4"});
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    const auto head =
        std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("tower  "); });
    REQUIRE(lines.end() - head >= 5);
    CHECK(*head == "tower     device  share  examples/s  compute   copies   others     host     memory");
    const auto percents_of = [](const std::string& line) {
        std::vector<double> found;
        for (std::size_t end = line.find(" %"); end != std::string::npos; end = line.find(" %", end + 1))
            found.push_back(std::stod(line.substr(line.rfind(' ', end - 1))));
        return found;
    };
    for (int tower = 0; tower < 2; ++tower) {
        const std::string line = head[1 + tower];
        CAPTURE(line);
        CHECK(line.starts_with("tower_" + std::to_string(tower) + "   cpu"));
        CHECK(line.ends_with(" MiB"));
        const std::vector<double> parts = percents_of(line);
        REQUIRE(parts.size() == 4);
        std::istringstream words(line);
        std::string name, device;
        unsigned share = 0; // on a busy machine the trial of the towers may leave one out
        words >> name >> device >> share;
        CHECK((share == 0 || parts[0] > parts[1])); // more computing than copies
        CHECK(parts[0] + parts[1] + parts[2] + parts[3] == doctest::Approx(100).epsilon(0.003));
    }
    CHECK(contains(head[3], "of the sum of their rates while at work"));
    const std::vector<double> host = percents_of(head[4]);
    REQUIRE(host.size() == 3);
    CHECK(host[0] + host[1] + host[2] == doctest::Approx(100).epsilon(0.003));
    const std::string config = read_text(folder / "run" / "config.toml");
    CHECK(contains(config, "\n# The shares of the last step: "));
}
