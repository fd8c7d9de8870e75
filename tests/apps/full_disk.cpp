// A disk that fills up must not destroy the checkpoints that are on it.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>

using namespace towers::test;
namespace fs = std::filesystem;

TEST_CASE("a checkpoint that does not fit leaves the earlier ones alone") {
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    train(run, {"--steps", "2", "--save-every", "1", "--batch", "2"});
    const auto before = contents(run);

    // A limit on the file size stands in for a full disk, which not every machine can provide.
    const Outcome outcome =
        run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"}, {.largest_file = 4 << 20});
    check_failed(outcome, 1, checkpoint(run, 3).string());
    CHECK(contains(outcome.err, "cannot write"));
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
                                            "recipe.toml"};
    CHECK(names_in(run) == expected); // and no partial file

    // Once there is room again, the run continues as if nothing had happened.
    check_worked(run_towers({"train", "--resume", "--run", run.string(), "--steps", "4"}));
    train(folder / "whole", {"--steps", "4", "--batch", "2"});
    check_same(folder / "whole", run, 4);
}

TEST_CASE("a run says so when the disk fills up while it saves") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "disk");
    // Only the script sees this disk. Its 28 MiB hold three checkpoints; the script copies its contents out
    // at the end.
    write_text(folder / "script", R"(
        mount -t tmpfs -o size=28m towers-test disk || exit 77
        "$1" train --towers cpu --batch 2 --log-every 1 --save-every 2 --steps 20 --run disk/run
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
    check_failed(outcome, 1, "disk/run/model.ckpt-6.safetensors");
    CHECK(contains(outcome.err, "No space left on device"));
    const std::vector<std::string> expected{"config.toml",
                                            "lock",
                                            "metrics.jsonl",
                                            "model.ckpt-0.safetensors",
                                            "model.ckpt-2.safetensors",
                                            "model.ckpt-4.safetensors",
                                            "recipe.toml"};
    CHECK(names_in(folder / "copy") == expected);
    for (const unsigned step : {0u, 2u, 4u})
        check_worked(run_towers(
            {"eval", "--towers", "cpu", "--checkpoint", checkpoint(folder / "copy", step).string()}));
    check_worked(run_towers({"train", "--resume", "--run", (folder / "copy").string(), "--steps", "6"}));
}

TEST_CASE("a run directory that towers cannot create is named") {
    const TemporaryFolder folder;
    write_text(folder / "file", "x");
    const std::string run = (folder / "file/run").string();
    check_failed(run_towers({"train", "--towers", "cpu", "--steps", "1", "--run", run}), 1, run);
}
