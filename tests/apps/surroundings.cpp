// No setting of a shell, a batch system or a user's profile may make the program hang or die.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <csignal>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Runs `script` in a shell, where $0 is the program.
Outcome run_script(const std::string& script, const RunOptions& options) {
    return Program({"sh", "-c", script, TOWERS_PROGRAM}, options).end();
}

} // namespace

TEST_CASE("towers on the CPU train on processors of every level") {
    for (const std::string level : {"SSE41", "AVX2", "ALL"}) {
        CAPTURE(level);
        const TemporaryFolder folder;
        const Outcome outcome = run_towers({"train", "--towers", "cpu,cpu", "--batch", "16", "--steps", "2",
                                            "--run", (folder / "run").string()},
                                           {.environment = {{"ONEDNN_MAX_CPU_ISA", level}}});
        check_worked(outcome);
        CHECK(fs::exists(checkpoint(folder / "run", 2)));
    }
}

// The thread sanitizer does not see OpenMP's forks and joins, so under it the CPU stays at one thread.
#ifndef __SANITIZE_THREAD__
TEST_CASE("the CPU backend uses as many threads as OpenMP gives") {
    const TemporaryFolder folder;
    write_text(folder / "tiny.toml", tiny_recipe("2", "kind = \"sgd\"\nlearning_rate = 0.01"));
    const Arguments tiny{"--recipe", (folder / "tiny.toml").string()};
    for (const auto& [variable, value] : {std::pair{"OMP_THREAD_LIMIT", "1"},
                                          {"OMP_DYNAMIC", "true"},
                                          {"OMP_MAX_ACTIVE_LEVELS", "0"},
                                          {"OMP_NUM_THREADS", "3"}}) {
        const auto& name = variable; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(name);
        const RunOptions options{.environment = {{name, value}}};
        const fs::path run = folder / name;
        check_worked(run_towers(Arguments{"train", "--towers", "cpu", "--batch", "8", "--steps", "3",
                                          "--log-every", "1", "--run", run.string()} +
                                    tiny,
                                options));
        CHECK(metrics(run).size() == 3);
        check_worked(run_towers(Arguments{"bench", "--towers", "cpu", "--batch", "4", "--steps", "1",
                                          "--repetitions", "1", "--warm-up", "1"} +
                                    tiny,
                                options));
        check_worked(run_towers(
            Arguments{"parity", "--towers", "cpu,cpu", "--batch", "4", "--steps", "1"} + tiny, options));
    }
    const auto driver = [](const RunOptions& options) { return driver_of_cpu(list_devices(options)); };
    CHECK(driver({.environment = {{"OMP_NUM_THREADS", "3"}}}).ends_with(", 3 threads"));
    CHECK(driver({.environment = {{"OMP_THREAD_LIMIT", "1"}}}).ends_with(", 1 thread"));
    const std::vector<Arguments> commands{{"devices"},
                                          {"train", "--towers", "cpu", "--run", (folder / "many").string()}};
    for (const Arguments& command : commands)
        check_failed(run_towers(command, {.environment = {{"OMP_NUM_THREADS", "100000"}}}), 2,
                     "OMP_NUM_THREADS=100000: give at most 1024");
}

TEST_CASE("asking for more threads than OpenMP gives is a warning") {
    const TemporaryFolder folder;
    const Outcome outcome = run_towers({"train", "--towers", "cpu", "--threads", "8", "--batch", "8",
                                        "--steps", "3", "--run", (folder / "run").string()},
                                       {.environment = {{"OMP_THREAD_LIMIT", "2"}}});
    CHECK(outcome.code == 0);
    CHECK(lines_of(outcome.err).size() == 1);
    CHECK(contains(outcome.err, "--threads 8: OpenMP gives 2"));
}
#endif

TEST_CASE("a closed standard stream neither spoils a file nor crashes the program") {
    const TemporaryFolder folder;
    const RunOptions options{.folder = folder.path()};
    const Outcome trained = run_script(
        "\"$0\" train --towers cpu --batch 8 --steps 2 --log-every 1 --run run >&- 2>&- <&-", options);
    CHECK(trained.code == 0);
    CHECK(read_text(folder / "run/lock").empty());
    CHECK(metrics(folder / "run").size() == 2);
    for (const std::string closed : {">&-", "2>&-", "<&-", ">&- 2>&- <&-"}) {
        CAPTURE(closed);
        CHECK(run_script("\"$0\" train --towers vulkan:99 " + closed, options).code == 2);
        CHECK(run_script("\"$0\" train --towers cpu --run run " + closed, options).code == 1);
    }
}
