// A resumed run goes on with its own settings, as far as the user does not change them, and says what
// changed.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("--resume uses the run's settings, and a flag overrides one") {
    const TemporaryFolder folder;
    const Arguments flags{"--batch",   "6",   "--lr",      "0.05", "--seed", "9",
                          "--distort", "off", "--shuffle", "off",  "--steps"};
    train_small(folder / "whole", flags + Arguments{"8"});
    train_small(folder / "parts", flags + Arguments{"4"});
    const std::string parts = (folder / "parts").string();
    check_worked(
        run_towers({"train", "--resume", "--run", parts})); // to the step that it has already reached
    CHECK(metrics(parts).size() == 4);
    // Flags that the run never trained with do not become its settings.
    const auto before = contents(parts);
    const Outcome nothing = run_towers({"train", "--resume", "--run", parts, "--steps", "2", "--lr", "0.5",
                                        "--distort", "on", "--batch", "3"});
    check_worked(nothing);
    CHECK(contains(nothing.out, "nothing to do: 2 steps are asked for, and " + checkpoint(parts, 4).string() +
                                    " has 4; "));
    const bool untouched = contents(parts) == before;
    CHECK(untouched);
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "8", "--init", "x"}), 2,
                 "--init: a resumed run starts from its checkpoint's variables");
    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "8"}));
    check_same(folder / "whole", parts, 8);
    CHECK(read_text(folder / "whole/config.toml") == read_text(folder / "parts/config.toml"));

    check_worked(run_towers({"train", "--resume", "--run", parts, "--steps", "10", "--lr", "0.01"}));
    const auto lines = metrics(parts);
    REQUIRE(lines.size() == 10);
    CHECK(lines[7].at("learning_rate") == doctest::Approx(0.05));
    CHECK(lines[8].at("learning_rate") == doctest::Approx(0.01));
    CHECK(lines[9].at("examples") == 9 * 6);

    // Another seed would make it another run.
    check_failed(run_towers({"train", "--resume", "--run", parts, "--steps", "11", "--seed", "8"}), 2,
                 "--seed 8");
    CHECK(metrics(parts).size() == 10);
}

TEST_CASE("a run whose config.toml is lost or empty resumes with its checkpoint's settings") {
    const TemporaryFolder folder;
    const Arguments flags{"--towers", "cpu,cpu", "--shares",  "3:1", "--batch",   "4",   "--lr",   "0.05",
                          "--seed",   "9",       "--distort", "off", "--shuffle", "off", "--tune", "auto"};
    train_small(folder / "whole", flags + Arguments{"--steps", "4"});
    train_small(folder / "parts", flags + Arguments{"--steps", "2"});
    const fs::path parts = folder / "parts";
    const auto resume = [&](const Arguments& more) {
        return run_towers(Arguments{"train", "--resume", "--run", parts.string(), "--log-every", "1"} + more);
    };
    fs::remove(parts / "config.toml");
    check_failed(resume({}), 2,
                 "--steps: " + (parts / "config.toml").string() + " does not say how long to train");
    check_failed(resume({"--steps", "4", "--seed", "1"}), 2,
                 "--seed 1: " + checkpoint(parts, 2).string() + " was trained with seed 9");
    check_worked(resume({"--steps", "3"}));
    write_text(parts / "config.toml", "");
    check_worked(resume({"--steps", "4"}));
    check_same(folder / "whole", parts, 4);
    CHECK(read_text(folder / "whole/config.toml") == read_text(parts / "config.toml"));

    // A checkpoint of an early version does not hold its settings, and towers does not guess them.
    RawTensors file = RawTensors::read(checkpoint(parts, 4));
    CHECK(file.header["__metadata__"].erase("settings") == 1);
    write_text(checkpoint(parts, 4), file.bytes());
    check_worked(resume({"--steps", "5"}));
    file.header["__metadata__"]["step"] = "6";
    write_text(checkpoint(parts, 6), file.bytes());
    fs::remove(parts / "config.toml");
    check_failed(resume({"--steps", "7"}), 1, "says which settings the run was trained with");
    check_worked(resume({"--steps", "7", "--config", (folder / "whole/config.toml").string()}));
}

TEST_CASE("a run resumed on other towers keeps its global batch, and says what changed") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(run, {"--towers", "cpu,cpu,cpu", "--shares", "2:1:1", "--batch", "4", "--steps", "1"});
    const auto resume = [&](const Arguments& flags) {
        const Outcome outcome =
            run_towers(Arguments{"train", "--resume", "--run", run.string(), "--log-every", "1"} + flags);
        check_worked(outcome);
        return outcome.out;
    };
    const auto examples = [&] { return metrics(run).back().at("examples").get<unsigned>(); };
    std::string out = resume({"--steps", "3", "--towers", "cpu"});
    CAPTURE(out);
    CHECK(contains(out, "tower_0: cpu ("));
    CHECK(contains(out, "), 12 examples a step"));
    CHECK(contains(out, "changed: towers from 'cpu,cpu,cpu' to 'cpu'"));
    CHECK(contains(out, "changed: shares from '2:1:1' to none"));
    CHECK(contains(out, "the global batch stays at 12 examples a step"));
    CHECK(examples() == 24);
    CHECK(contains(read_text(run / "config.toml"), "global-batch = 12\n"));

    // Also a global batch that the towers cannot share evenly.
    out = resume({"--steps", "5", "--towers", "cpu,cpu,cpu,cpu,cpu"});
    CHECK(examples() == 48);
    out = resume({"--steps", "7", "--global-batch", "15"});
    CHECK(contains(out, "changed: global batch from 12 to 15 examples a step"));
    CHECK(examples() == 60 + 15);
    // --batch sets the batch per tower, and the same towers keep their shares.
    out = resume({"--steps", "9", "--towers", "cpu,cpu", "--batch", "4", "--shares", "3:1"});
    CHECK(contains(out, "changed: global batch from 15 to 8 examples a step"));
    out = resume({"--steps", "11", "--towers", "cpu,cpu"});
    CHECK_FALSE(contains(out, "changed"));
    CHECK(contains(out, "tower_0: cpu ("));
    CHECK(contains(out, "), 6 examples a step"));
    CHECK(contains(out, "), 2 examples a step"));
}

TEST_CASE("a resumed run has the shares, towers and rate of its checkpoint, and reports changes") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train_small(
        run, {"--towers", "cpu,cpu", "--shares", "3:1", "--batch", "4", "--steps", "4", "--save-every", "2"});
    const auto resume = [&](const Arguments& flags) {
        const Outcome outcome = run_towers(Arguments{"train", "--run", run.string()} + flags);
        check_worked(outcome);
        return outcome.out;
    };
    resume({"--resume", "--towers", "cpu", "--lr", "0.01", "--steps", "6"});
    // config.toml has changed since the checkpoint of step 4.
    const std::string out = resume({"--resume-from", "4"});
    CAPTURE(out);
    CHECK(contains(out, "changed: towers from 'cpu,cpu' to 'cpu'"));
    CHECK(contains(out, "changed: shares from '3:1' to none"));
    CHECK(contains(out, "changed: lr from 0.1 to 0.01"));
    CHECK(contains(out, "the global batch stays at 8 examples a step"));
    CHECK_FALSE(contains(resume({"--resume", "--steps", "8"}), "changed"));

    // A configuration's shares are of its own towers.
    write_text(folder / "c.toml", "towers = 'cpu,cpu'\nshares = '3:1'\nbatch = 4\nsteps = 1\n");
    train_small(folder / "other", {"--config", (folder / "c.toml").string(), "--towers", "cpu"});
    // A file that the user has edited is read as it is.
    std::string edited = read_text(run / "config.toml");
    edited.replace(edited.find("towers = 'cpu'"), 14, "backend = 'cpu'");
    write_text(run / "config.toml", edited);
    CHECK_FALSE(contains(resume({"--resume", "--steps", "9"}), "changed"));
}

TEST_CASE("a path that is not UTF-8 survives in the settings") {
    const TemporaryFolder folder;
    const fs::path data = folder / "caf\xe9 100%", run = folder / "run";
    write_records(data, 4);
    train_small(run, {"--data", data.string(), "--batch", "2", "--steps", "1"});
    CHECK(contains(read_text(run / "config.toml"), "/caf%E9%20100%25'"));
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "2"}));
    check_worked(run_towers({"eval", "--run", run.string()}));
    check_worked(run_towers({"parity", "--towers", "cpu,cpu", "--batch", "2", "--steps", "0", "--data",
                             data.string(), "--json", (folder / "json").string()}));
}

TEST_CASE("--epochs counts passes over the data, even in a run that started with --steps") {
    const TemporaryFolder folder;
    write_records(folder / "data", 4); // 20 training examples
    const fs::path run = folder / "run";
    train_small(run, {"--data", (folder / "data").string(), "--batch", "8", "--epochs", "1"});
    CHECK(fs::exists(checkpoint(run, 3)));
    train_small(run, {"--resume", "--epochs", "2"});
    CHECK(fs::exists(checkpoint(run, 5)));
    const auto lines = metrics(run);
    REQUIRE(lines.size() == 5);
    CHECK(lines[2].at("epoch") == 0);
    CHECK(lines[3].at("epoch") == 1); // this step starts after 24 examples
}
