// Ctrl-C, a batch system's SIGTERM or a crash must not lose the training done so far.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

Arguments endless(const fs::path& run) {
    return towers_command({"train", "--towers", "cpu", "--batch", "4", "--log-every", "1", "--save-every",
                           "3", "--steps", "1000000", "--run", run.string()});
}

unsigned latest_step(const fs::path& run) {
    unsigned latest = 0;
    for (const std::string& name : names_in(run))
        if (name.starts_with("model.ckpt-") && name.ends_with(".safetensors"))
            latest = std::max(latest, unsigned(std::stoul(name.substr(11))));
    REQUIRE(latest > 0);
    return latest;
}

/// Resumes the run, and checks that a run without interruption gives the same.
void check_goes_on(const TemporaryFolder& folder) {
    const unsigned steps = latest_step(folder / "run") + 4;
    const Outcome resumed = run_towers(
        {"train", "--resume", "--run", (folder / "run").string(), "--steps", std::to_string(steps)});
    check_worked(resumed);
    train(folder / "whole", {"--batch", "4", "--steps", std::to_string(steps)});
    check_same(folder / "whole", folder / "run", steps);
}

} // namespace

TEST_CASE("SIGINT and SIGTERM end a run cleanly") {
    for (const int signal : {SIGINT, SIGTERM}) {
        CAPTURE(signal);
        const TemporaryFolder folder;
        const fs::path run = folder / "run";
        Program program(endless(run));
        REQUIRE(program.wait_for_lines(": step ", 5));
        program.send(signal);
        const Outcome outcome = program.end();
        check_worked(outcome);
        const unsigned step = latest_step(run);
        CHECK(contains(outcome.out, "stopped: saved " + checkpoint(run, step).string()));
        CHECK(contains(outcome.out,
                       "resume with: " TOWERS_PROGRAM " train --run " + run.string() + " --resume"));
        CHECK(metrics(run).size() == step); // no step is lost
        check_worked(run_towers({"eval", "--towers", "cpu", "--run", run.string()}));
        check_goes_on(folder);
    }
}

TEST_CASE("a killed run resumes from its last checkpoint") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    {
        Program program(endless(run));
        REQUIRE(program.wait_until([&] { return fs::exists(checkpoint(run, 3)); }));
        program.send(SIGKILL);
        CHECK(program.end().code == -SIGKILL);
    }
    // Leave what a kill leaves while the run saves and while it writes a line.
    write_text(run / "model.ckpt-99.safetensors.tmp-1", "half a file");
    write_text(run / "metrics.jsonl", read_text(run / "metrics.jsonl") + "{\"step\":");
    check_goes_on(folder);
    CHECK_FALSE(fs::exists(run / "model.ckpt-99.safetensors.tmp-1"));
}
