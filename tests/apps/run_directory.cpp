// No run may overwrite another one.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <memory>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("a second run does not overwrite the first") {
    const TemporaryFolder folder;
    const std::string run = (folder / "run").string();
    train_small(run, {"--steps", "2", "--batch", "2"});
    const auto before = contents(run);
    const Outcome second =
        run_towers({"train", "--towers", "cpu", "--steps", "3", "--batch", "2", "--run", run});
    check_failed(second, 1, run);
    CHECK(contains(second.err, "--resume"));
    const bool untouched = contents(run) == before;
    CHECK(untouched);
}

TEST_CASE("no second run starts in the folder of a run in progress") {
    const TemporaryFolder folder;
    const std::string run = (folder / "run").string();
    Program first(
        towers_command(Arguments{"train", "--towers", "cpu", "--batch", "2", "--log-every", "1",
                                 "--save-every", "5", "--threads", "1", "--steps", "1000000", "--run", run} +
                       small_data()));
    REQUIRE(first.wait_until([&] { return fs::exists(checkpoint(run, 5)); }));
    check_failed(run_towers({"train", "--resume", "--run", run}), 1, "in use");
    check_failed(run_towers({"train", "--towers", "cpu", "--run", run}), 1, "in use");
    check_failed(run_towers({"train", "--towers", "cpu", "--run", run, "--quirks", "delete-run"}), 1,
                 "in use");
    // Evaluating during the training is fine.
    check_worked(run_towers({"eval", "--towers", "cpu", "--run", run}));
    first.send(SIGINT);
    check_worked(first.end());
}

namespace {

/// For a program in which asking for these kinds of locks gives this error.
RunOptions no_locks(const std::string& kinds, int error) {
    std::string sanitizer = "verify_asan_link_order=0"; // the library is not built with the sanitizer
    if (const char* const options = std::getenv("ASAN_OPTIONS")) sanitizer.append(":").append(options);
    return {.environment = {{"LD_PRELOAD", TOWERS_NO_LOCKS},
                            {"NO_LOCKS", kinds},
                            {"NO_LOCKS_ERROR", std::to_string(error)},
                            {"ASAN_OPTIONS", sanitizer}}};
}

} // namespace

TEST_CASE("a run goes on where its file system lacks locks") {
    const TemporaryFolder folder;
    for (const auto& [error, lacking] : {std::pair{ENOSYS, "flock"},
                                         {ENOLCK, "fcntl"},
                                         {EOPNOTSUPP, "flock,fcntl"},
                                         {ENOSYS, "flock,fcntl"}}) {
        const std::string run = (folder / fmt::format("{} {}", lacking, error)).string();
        CAPTURE(run);
        const RunOptions options = no_locks(lacking, error);
        const Arguments flags{"--towers", "cpu",          "--batch", "2",         "--log-every",
                              "1",        "--save-every", "5",       "--threads", "1"};
        Program first(
            towers_command(Arguments{"train", "--steps", "1000000", "--run", run} + flags + small_data()),
            options);
        REQUIRE(first.wait_until([&] { return fs::exists(checkpoint(run, 5)); }));
        const bool locked = lacking != std::string("flock,fcntl");
        if (locked) check_failed(run_towers({"train", "--resume", "--run", run}, options), 1, "in use");
        first.send(SIGINT);
        const Outcome outcome = first.end();
        CHECK(outcome.code == 0);
        CHECK(lines_of(outcome.err).size() == (locked ? 0 : 1));
        CHECK(contains(outcome.err, run + "/lock cannot be locked: ") == !locked);
    }
}

TEST_CASE("a lock that fails for another reason is an error, and one that a signal interrupts is taken") {
    const TemporaryFolder folder;
    const std::string run = (folder / "run").string();
    const Arguments train =
        Arguments{"train", "--towers", "cpu", "--batch", "2", "--steps", "1", "--run", run} + small_data();
    for (const char* const kinds : {"flock", "flock,fcntl"}) {
        CAPTURE(kinds);
        for (const int error : {EIO, EBADF})
            check_failed(run_towers(train, no_locks(kinds, error)), 1, "cannot lock " + run + "/lock: ");
    }
    RunOptions interrupted = no_locks("flock", EINTR);
    interrupted.environment.emplace_back("NO_LOCKS_TIMES", "2");
    check_worked(run_towers(train, interrupted));
}

TEST_CASE("--quirks delete-run deletes the run and nothing else") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "3", "--batch", "2", "--save-every", "1"});
    write_text(run / "notes.txt", "mine");
    write_text(run / "model.ckpt-best.safetensors", "mine");
    write_text(run / "model.ckpt-03.safetensors", "mine");
    fs::create_directory(run / "plots");
    write_text(run / "plots/metrics.jsonl", "mine");

    train_small(run, {"--steps", "1", "--batch", "2", "--quirks", "delete-run"});
    for (const unsigned step : {2u, 3u}) CHECK_FALSE(fs::exists(checkpoint(run, step)));
    CHECK(fs::exists(checkpoint(run, 1)));
    CHECK(metrics(run).size() == 1);
    for (const char* name :
         {"notes.txt", "model.ckpt-best.safetensors", "model.ckpt-03.safetensors", "plots/metrics.jsonl"})
        CHECK(read_text(run / name) == "mine");
}

TEST_CASE("without --run each run gets its own directory under runs/") {
    const TemporaryFolder folder;
    const Outcome outcome =
        run_towers(Arguments{"train", "--towers", "cpu", "--steps", "1", "--batch", "2"} + small_data(),
                   {.folder = folder.path()});
    check_worked(outcome);
    CHECK(names_in(folder.path()) == std::vector<std::string>{"runs"});
    const std::vector<std::string> runs = names_in(folder / "runs");
    REQUIRE(runs.size() == 1);
    CHECK(std::regex_match(runs[0], std::regex(R"(cifar10-tutorial-\d{8}-\d{6})")));
    CHECK(fs::exists(checkpoint(folder / "runs" / runs[0], 1)));
    CHECK(contains(outcome.out, "saved runs/" + runs[0] + "/model.ckpt-1.safetensors"));
}

TEST_CASE("runs that start at once get directories of their own") {
    const TemporaryFolder folder;
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 3; ++i)
        programs.push_back(std::make_unique<Program>(
            towers_command(Arguments{"train", "--towers", "cpu", "--steps", "1", "--batch", "2"} +
                           small_data()),
            RunOptions{.folder = folder.path()}));
    for (const auto& program : programs) check_worked(program->end());
    const std::vector<std::string> runs = names_in(folder / "runs");
    CHECK(runs.size() == 3);
    for (const std::string& run : runs) {
        CHECK(std::regex_match(run, std::regex(R"(cifar10-tutorial-\d{8}-\d{6}(-[23])?)")));
        CHECK(fs::exists(checkpoint(folder / "runs" / run, 1)));
    }
}

TEST_CASE("quickstart.sh's runs that start at once get directories of their own") {
    const TemporaryFolder folder;
    const auto program = [&](const char* path, const std::string& script) {
        write_text(folder / path, "#!/bin/sh\n" + script);
        fs::permissions(folder / path, fs::perms::owner_all);
    };
    for (const char* each : {"cmake", "bin", "build/release"}) fs::create_directories(folder / each);
    fs::copy(source_folder() / "cmake/quickstart.sh", folder / "cmake");
    program("bin/cmake", "");
    program("bin/dpkg-query", "echo install ok installed");
    program("bin/date", "echo 20261123-040000"); // both in one second
    program("build/release/towers", "for last; do :; done; [ $1 = eval ] || [ -d $last ] && echo $1 $last\n");
    const std::string path = (folder / "bin").string() + ":" + std::getenv("PATH");
    std::string out;
    for (int i = 0; i < 2; ++i) {
        const Outcome outcome = Program({"sh", (folder / "cmake/quickstart.sh").string(), "train"},
                                        {.environment = {{"PATH", path}, {"PRESET", "release"}}})
                                    .end();
        check_worked(outcome);
        out += outcome.out;
    }
    CHECK(out == "train runs/20261123-040000\neval runs/20261123-040000\n"
                 "train runs/20261123-040000-2\neval runs/20261123-040000-2\n");
}

TEST_CASE("--keep and --save-every decide which checkpoints remain") {
    const TemporaryFolder folder;
    const auto kept = [&](const char* name, const Arguments& flags) {
        train_small(folder / name, flags + Arguments{"--steps", "7", "--batch", "2"});
        std::vector<std::string> names;
        for (const std::string& each : names_in(folder / name))
            if (each.starts_with("model.ckpt-")) names.push_back(each.substr(11, each.find('.', 11) - 11));
        return names;
    };
    using Steps = std::vector<std::string>;
    CHECK(kept("two", {"--save-every", "2", "--keep", "2"}) == Steps{"6", "7"});
    CHECK(kept("all", {"--save-every", "2", "--keep", "0"}) == Steps{"0", "2", "4", "6", "7"});
    CHECK(kept("end", {"--save-every", "0"}) == Steps{"0", "7"});
    CHECK(kept("default", {}) == Steps{"0", "7"});
}

TEST_CASE("a run that was killed before its first checkpoint was due can be resumed") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "0", "--batch", "2"}); // the state of a run that is killed at once
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "2"}));
    train_small(folder / "whole", {"--steps", "2", "--batch", "2"});
    check_same(folder / "whole", run, 2);
}
