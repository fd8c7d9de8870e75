// When towers suggests a command, users paste it into a shell.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The text after `label`, up to the end of the output.
std::string hint_after(const Outcome& outcome, const std::string& label) {
    CAPTURE(outcome.out);
    check_worked(outcome);
    const std::size_t at = outcome.out.find(label);
    REQUIRE(at != std::string::npos);
    return outcome.out.substr(at + label.size());
}

Outcome paste(const std::string& hint, const RunOptions& options) {
    return Program({"sh", "-c", hint}, options).end();
}

Arguments training(const std::string& run, const char* steps) {
    return Arguments{"train", "--towers",     "cpu", "--batch", "2", "--steps",
                     steps,   "--save-every", "0",   "--run",   run} +
           small_data();
}

} // namespace

TEST_CASE("the command that a run suggests at its end works when pasted, for any folder name") {
    for (const std::string name :
         {"plain", "it's my run", "-x", "--resume", "a \"b\" $HOME `c`", "two\nlines", "~", "*", "# \\"}) {
        CAPTURE(name);
        const TemporaryFolder folder;
        const RunOptions options{.folder = folder.path()};
        const std::string run = name == "--resume" ? "./--resume" : name;
        const Outcome outcome = run_towers(training(run, "1"), options);
        REQUIRE(names_in(folder.path()) == std::vector<std::string>{name});
        const Outcome pasted = paste(hint_after(outcome, "evaluate with: "), options);
        check_worked(pasted);
        CHECK(contains(pasted.out, "step 1, moving averages"));
    }
}

TEST_CASE("the command that a stopped run suggests works when pasted") {
    const TemporaryFolder folder;
    const std::string run = "it's my run";
    const RunOptions options{.folder = folder.path()};
    Program program(towers_command(training(run, "1000000") + Arguments{"--log-every", "1"}), options);
    REQUIRE(program.wait_for_lines(": step ", 2));
    program.send(SIGINT);
    std::string hint = hint_after(program.end(), "resume with: ");
    REQUIRE(hint.ends_with('\n'));
    hint.replace(hint.size() - 1, 1, " --steps 1"); // the run has already done one step
    const Outcome pasted = paste(hint, options);
    check_worked(pasted);
    CHECK(contains(pasted.out, "nothing to do: "));
}

TEST_CASE("the command that 'data shapes' suggests works when pasted") {
    const TemporaryFolder folder;
    const RunOptions options{.folder = folder.path()};
    const Outcome outcome = run_towers({"data", "shapes", "it's data"}, options);
    std::string hint = hint_after(outcome, "train on them with: ");
    REQUIRE(hint.ends_with('\n'));
    hint.replace(hint.size() - 1, 1, " --towers cpu --batch 2 --steps 1 --run r");
    check_worked(paste(hint, options));
    CHECK(contains(read_text(folder / "r/config.toml"), "it's data"));
}

TEST_CASE("a suggested command calls the program as the user called it") {
    const TemporaryFolder folder;
    const std::string bin = "it's bin";
    fs::create_directory(folder / bin);
    fs::create_symlink(TOWERS_PROGRAM, folder / (bin + "/towers"));
    const auto proposed = [&](const char* program, const std::string& run) {
        const std::string path = (folder / bin).string() + ":" + std::getenv("PATH");
        const RunOptions options{.folder = folder.path(), .environment = {{"PATH", path}}};
        const std::string hint = hint_after(
            Program(Arguments{"env", program} + training(run, "0"), options).end(), "evaluate with: ");
        check_worked(paste(hint, options));
        return hint;
    };
    CHECK(proposed("towers", "a") == "towers eval a\n");
    CHECK(proposed("it's bin/towers", "b") == "'it'\\''s bin/towers' eval b\n");
}
