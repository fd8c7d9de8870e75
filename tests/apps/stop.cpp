// Ctrl-C, a batch system's SIGTERM, a closed terminal or pipe, or a crash must not lose the training done so
// far.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <csignal>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

Arguments endless(const fs::path& run, const Arguments& flags = {"--towers", "cpu"}) {
    return towers_command(Arguments{"train", "--batch", "4", "--log-every", "1", "--save-every", "3",
                                    "--steps", "1000000", "--run", run.string()} +
                          small_data() + flags);
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
void check_goes_on(const TemporaryFolder& folder, const Arguments& flags = {}) {
    const unsigned steps = latest_step(folder / "run") + 4;
    const Outcome resumed = run_towers(
        {"train", "--resume", "--run", (folder / "run").string(), "--steps", std::to_string(steps)});
    check_worked(resumed);
    train_small(folder / "whole", Arguments{"--batch", "4", "--steps", std::to_string(steps)} + flags);
    check_same(folder / "whole", folder / "run", steps);
}

void kill_after_checkpoint(const fs::path& run, const Arguments& command) {
    Program program(command);
    REQUIRE(program.wait_until([&] { return fs::exists(checkpoint(run, 3)); }));
    program.send(SIGKILL);
    CHECK(program.end().code == -SIGKILL);
}

} // namespace

TEST_CASE("SIGINT, SIGTERM and SIGHUP end a run cleanly") {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
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

TEST_CASE("a closed terminal ends a run cleanly") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    Program program(endless(run), {.columns = 80}); // the live line, which prints in every step
    REQUIRE(program.wait_until([&] { return fs::exists(checkpoint(run, 3)); }));
    program.close_output();
    // The shell and the kernel both send it.
    for (int i = 0; i < 2; ++i) program.send(SIGHUP);
    const Outcome outcome = program.end();
    check_failed(outcome, 1, "cannot write to standard output");
    CHECK(contains(outcome.err, "stopped: saved " + checkpoint(run, latest_step(run)).string()));
    CHECK(metrics(run).size() == latest_step(run));
    check_goes_on(folder);
}

TEST_CASE("a closed output pipe ends a run cleanly") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    Program program(endless(run));
    REQUIRE(program.wait_for_lines(": step ", 5));
    program.close_output();
    const Outcome outcome = program.end();
    check_failed(outcome, 1, "cannot write to standard output");
    CHECK(contains(outcome.err, "stopped: saved " + checkpoint(run, latest_step(run)).string()));
    CHECK(metrics(run).size() == latest_step(run));
    check_goes_on(folder);
}

TEST_CASE("a signal that is ignored when the run starts stays ignored, as nohup requires") {
    const TemporaryFolder folder;
    Program program(Arguments{"nohup"} + endless(folder / "run"));
    REQUIRE(program.wait_for_lines(": step ", 2));
    program.send(SIGHUP);
    CHECK(program.wait_for_lines(": step ", 20));
    program.send(SIGTERM);
    const Outcome outcome = program.end();
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "stopped: saved "));
}

TEST_CASE("a killed run resumes from its last checkpoint") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    kill_after_checkpoint(run, endless(run));
    // Simulates kills while the run saves and while it writes a line.
    write_text(run / "model.ckpt-99.safetensors.tmp-1", "half a file");
    write_text(run / "metrics.jsonl", read_text(run / "metrics.jsonl") + "{\"step\":");
    check_goes_on(folder);
    CHECK_FALSE(fs::exists(run / "model.ckpt-99.safetensors.tmp-1"));
}

TEST_CASE("a killed run resumes to the bit with every optimizer, batch norm and dropout") {
    const std::string batch = "\"batch\"";
    struct Training {
        std::string recipe, towers;
    };
    const std::vector<Training> trainings = {
        {tiny_recipe("2", "kind = \"sgd\"\nlearning_rate = 0.05\n"), "cpu"},
        {tiny_recipe("2", "kind = \"momentum\"\nnesterov = true\nlearning_rate = 0.02\nclip_norm = 0.5\n"),
         "cpu"},
        {tiny_recipe("2", "kind = \"rmsprop\"\nlearning_rate = 1e-3\nepsilon_inside = true\n"), "cpu"},
        {tiny_recipe("2", "kind = \"adam\"\nlearning_rate = 1e-3\n"), "cpu,cpu"},
        {tiny_recipe(batch, "kind = \"adamw\"\nlearning_rate = 1e-3\nweight_decay = 0.1\n"), "cpu,cpu"},
        {tiny_recipe(batch, "kind = \"momentum\"\nlearning_rate = 0.02\n"), "cpu"},
    };
    for (const Training& training : trainings) {
        CAPTURE(training.recipe);
        CAPTURE(training.towers);
        const TemporaryFolder folder;
        write_text(folder / "mine.toml", training.recipe);
        const fs::path run = folder / "run";
        const Arguments flags{"--towers", training.towers, "--shares",
                              "even",     "--recipe",      (folder / "mine.toml").string()};
        kill_after_checkpoint(run, endless(run, flags));
        check_goes_on(folder, flags);
    }
}
