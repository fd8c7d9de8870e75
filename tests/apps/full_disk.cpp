// A disk that fills up must not destroy the checkpoints that are on it.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <csignal>
#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("a checkpoint that does not fit costs neither the earlier ones nor the training after it") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--steps", "2", "--save-every", "1", "--batch", "2", "--summary-every", "0"});
    const auto before = contents(run);

    // A limit on the file size simulates a full disk, which not every machine can provide.
    const Outcome outcome =
        run_towers({"train", "--resume", "--run", run.string(), "--steps", "5"}, {.largest_file = 4 << 20});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    const std::vector<std::string> lines = lines_of(outcome.err);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].starts_with("towers: cannot write " + checkpoint(run, 3).string() + ": File too large; "));
    CHECK(lines[0].ends_with("; training goes on and tries again at the next save"));
    CHECK(lines[1].starts_with("towers: cannot write " + checkpoint(run, 5).string() + ": File too large; "));
    CHECK(lines[1].ends_with("; what was trained after " + checkpoint(run, 2).string() + " is lost"));
    CHECK(metrics(run).size() == 5);
    for (const unsigned step : {0u, 1u, 2u}) {
        const std::string name = checkpoint(run, step).filename().string();
        const bool untouched = read_text(run / name) == before.at(name);
        CHECK(untouched);
        check_worked(run_towers({"eval", "--towers", "cpu", "--checkpoint", (run / name).string()}));
    }
    const std::vector<std::string> expected{"config.toml",
                                            "lock",
                                            "metrics.jsonl",
                                            "model.ckpt-0.safetensors",
                                            "model.ckpt-1.safetensors",
                                            "model.ckpt-2.safetensors",
                                            "recipe.toml",
                                            "times.jsonl"};
    CHECK(names_in(run) == expected); // and no partial file

    // Once there is room again, the run continues as if nothing had happened.
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"}));
    train_small(folder / "whole", {"--steps", "4", "--batch", "2"});
    check_same(folder / "whole", run, 4);
}

TEST_CASE("a run saves again once its full disk has room") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "disk");
    // Only the script sees this disk. Its 28 MiB hold three checkpoints; the script copies its contents out
    // at the end.
    write_text(folder / "script", R"(
        mount -t tmpfs -o size=28m towers-test disk || exit 77
        head -c 16000000 /dev/zero > disk/others
        "$1" train --towers cpu --batch 2 --log-every 1 --save-every 2 --keep 2 --steps 1000000 --run disk/run > out 2> err &
        until grep -qs "training goes on" err; do sleep 0.01; done
        rm disk/others
        until grep -qs "saved again" err; do sleep 0.01; done
        kill -TERM $!
        wait $!
        code=$?
        cp -r disk/run copy
        exit $code
    )");
    const Outcome outcome =
        Program({"unshare", "-rm", "sh", "script", TOWERS_PROGRAM}, {.folder = folder.path()}).end();
    if (outcome.code == 77 || outcome.code == 127 || contains(outcome.err, "unshare")) {
        MESSAGE("SKIPPED: this machine does not let users mount a disk: ", outcome.err);
        return;
    }
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(read_text(folder / "err"));
    REQUIRE(lines.size() == 2);
    CHECK(contains(lines[0], "disk/run/model.ckpt-2.safetensors: No space left on device; free some space"));
    CHECK(contains(lines[1], "saved again: disk/run/model.ckpt-"));
    const std::string out = read_text(folder / "out");
    const std::size_t saved = out.find("stopped: saved disk/run/model.ckpt-");
    REQUIRE(saved != std::string::npos);
    const auto steps = unsigned(std::stoul(out.substr(saved + 35)));
    CHECK(metrics(folder / "copy").size() == steps);
    train_small(folder / "copy", {"--resume", "--steps", std::to_string(steps + 2)});
    train(folder / "whole", {"--batch", "2", "--steps", std::to_string(steps + 2)});
    check_same(folder / "whole", folder / "copy", steps + 2);
}

TEST_CASE("a run whose folder is moved away for a while loses nothing") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    Program program(
        towers_command(Arguments{"train", "--towers", "cpu", "--batch", "2", "--log-every", "1",
                                 "--save-every", "5", "--steps", "1000000", "--run", run.string()} +
                       small_data()));
    REQUIRE(program.wait_until([&] { return fs::exists(checkpoint(run, 5)); }));
    fs::rename(run, folder / "elsewhere");
    const auto lines = [&] { return lines_of(read_text(folder / "elsewhere/metrics.jsonl")).size(); };
    const std::size_t before = lines(); // the run keeps the file open when it moves
    REQUIRE(program.wait_until([&] { return lines() > before + 5; }));
    fs::rename(folder / "elsewhere", run);
    program.send(SIGTERM);
    const Outcome outcome = program.end();
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.err, "; training goes on and tries again at the next save\n"));
    const auto steps = unsigned(metrics(run).size());
    CHECK(contains(outcome.out, "stopped: saved " + checkpoint(run, steps).string()));

    // If it does not come back, the last message says what is lost.
    Program lost(towers_command({"train", "--resume", "--run", run.string(), "--save-every", "0"}));
    REQUIRE(lost.wait_for_lines(": step ", 2));
    fs::rename(run, folder / "elsewhere");
    lost.send(SIGTERM);
    check_failed(lost.end(), 1, "; what was trained since the last checkpoint is lost");
}

TEST_CASE("a full disk under the log costs its lines and no training") {
    const TemporaryFolder folder;
    const Outcome outcome =
        Program(
            {"sh", "-c",
             "\"$0\" train --towers cpu --batch 2 --threads 1 --log-every 1 --steps 60 --run run > /dev/full",
             TOWERS_PROGRAM},
            {.folder = folder.path()})
            .end();
    check_failed(outcome, 1, "cannot write to standard output");
    CHECK(contains(outcome.err, "done: saved run/model.ckpt-60.safetensors"));
    CHECK(metrics(folder / "run").size() == 60);
    CHECK(fs::exists(checkpoint(folder / "run", 60)));
}

TEST_CASE("a terminal that closes before the first line costs neither training nor trace") {
    const auto train_without_terminal = [](const TemporaryFolder& folder, const Arguments& flags) {
        // Nothing may be written before the terminal is gone, and its end is no signal to stop.
        Program program(Arguments{"sh", "-c",
                                  "trap '' HUP; echo ready; until test -e gone; do sleep 0.02; done; "
                                  "exec \"$0\" \"$@\"",
                                  TOWERS_PROGRAM, "train", "--towers", "cpu", "--batch", "2", "--log-every",
                                  "1", "--run", "run"} +
                            flags,
                        {.folder = folder.path(), .columns = 80});
        REQUIRE(program.wait_for_lines("ready", 1));
        program.close_output();
        write_text(folder / "gone", "");
        return program.end();
    };
    const TemporaryFolder well, failing;
    check_failed(train_without_terminal(well, {"--steps", "3"}), 1,
                 "done: saved run/model.ckpt-3.safetensors");
    CHECK(metrics(well / "run").size() == 3);

    std::string trace = "trace.json";
    for (int i = 0; i < 1000; ++i) trace.insert(0, "./"); // a line that no buffer holds
    const Outcome diverged =
        train_without_terminal(failing, {"--steps", "5", "--lr", "1e30", "--trace", trace});
    check_failed(diverged, 1, "Model diverged");
    CHECK(fs::exists(failing / "trace.json"));
}

TEST_CASE("a run directory that towers cannot create is named") {
    const TemporaryFolder folder;
    write_text(folder / "file", "x");
    const std::string run = (folder / "file/run").string();
    check_failed(run_towers({"train", "--towers", "cpu", "--steps", "1", "--run", run}), 1, run);
}
