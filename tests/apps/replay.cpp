// After a training has diverged, the user has a file, and one command that shows where it began.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace towers::test;

namespace {

/// A training that diverges in step 1. Returns what its one line of error says.
std::string diverge(const std::filesystem::path& run, const Arguments& flags) {
    const Outcome outcome =
        run_towers(Arguments{"train", "--steps", "5", "--shares", "even", "--run", run.string()} + flags);
    check_failed(outcome, 1, "Model diverged with loss");
    CHECK(contains(outcome.err, "in step 1"));
    CHECK(contains(outcome.err, (run / "diverged-1.safetensors").string() + " keeps the step"));
    CHECK(contains(outcome.err, "--resume-from 0"));
    return outcome.err;
}

/// The lines of the table that `towers replay` prints, without its head.
std::vector<std::string> replay(const std::filesystem::path& run, const std::string& towers) {
    const Outcome outcome =
        run_towers({"replay", (run / "diverged-1.safetensors").string(), "--towers", towers});
    check_worked(outcome);
    const std::vector<std::string> lines = lines_of(outcome.out);
    const auto head =
        std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("device "); });
    REQUIRE(head != lines.end());
    return {head + 1, lines.end()};
}

/// `cpu`, and the other device on which tests are fastest.
std::string devices() { return quick_device().empty() ? "cpu" : "cpu," + quick_device(); }

} // namespace

TEST_CASE("a run that diverges writes a file, from which replay shows without data where it began") {
    const TemporaryFolder folder;
    write_records(folder / "data", 10);
    for (const std::string towers : {"cpu", "cpu,cpu"}) {
        CAPTURE(towers);
        const std::filesystem::path run = folder / towers;
        const std::string error = diverge(
            run, {"--towers", towers, "--batch", "2", "--lr", "1e30", "--data", (folder / "data").string()});
        CHECK(contains(error, "done again on cpu, the step is first not finite in tensor 'norm1"));
        CHECK(contains(error, "of norm1 forward"));
    }
    std::filesystem::remove_all(folder / "data");
    for (const std::string towers : {"cpu", "cpu,cpu"}) {
        CAPTURE(towers);
        for (const std::string& line : replay(folder / towers, devices())) {
            CAPTURE(line);
            CHECK(contains(line, " yes "));
            CHECK(contains(line, " norm1 forward "));
        }
    }
    const Outcome outcome = run_towers({"replay", (folder / "cpu,cpu/diverged-1.safetensors").string()});
    check_worked(outcome);
    CHECK(outcome.out.starts_with("step 1 of cifar10-tutorial, 2 of 4 examples: the share of tower_0 (cpu); "
                                  "learning rate 1e+30, seed 1\n"
                                  "when it diverged: done again on cpu, the step is first not finite in "));
}

TEST_CASE("with a batch norm over the whole batch, replay does all of it and agrees on every device") {
    const TemporaryFolder folder;
    const std::filesystem::path run = folder / "run";
    diverge(run, {"--towers", "cpu,cpu", "--recipe", "cifar10-resnet20", "--set",
                  "defaults.batch_norm.group=\"batch\"", "--batch", "2", "--lr", "1e19"});
    const std::vector<std::string> lines = replay(run, devices());
    for (const std::string& line : lines) {
        CAPTURE(line);
        CHECK(contains(line, " yes "));
        CHECK(line.substr(line.find(" yes ")) == lines[0].substr(lines[0].find(" yes ")));
    }
    CHECK(contains(run_towers({"replay", (run / "diverged-1.safetensors").string()}).out,
                   "4 of 4 examples: the whole batch; "));
}

TEST_CASE("replay refuses other files with one line") {
    const TemporaryFolder folder;
    train(folder / "run", {"--steps", "0", "--batch", "2"});
    const std::string sound = checkpoint(folder / "run", 0).string();
    const auto refuses = [&](const std::string& file, const std::string& what) {
        CAPTURE(file);
        const Outcome outcome = run_towers({"replay", file});
        check_failed(outcome, 1, what);
        CHECK(contains(outcome.err, file));
        CHECK(outcome.out.empty());
    };
    refuses(sound, "is a checkpoint, not a step that diverged; give a run's diverged-<step>.safetensors");
    refuses((folder / "none").string(), "No such file");
    refuses(folder.path().string(), "folder");
    refuses((folder / "run/config.toml").string(), "is not a safetensors file; give one, such as a run's ");
    write_text(folder / "cut", read_text(sound).substr(0, 100'000));
    refuses((folder / "cut").string(), "it is cut short");
    check_failed(run_towers({"replay"}), 2, "give the file");
}

TEST_CASE("replay's help says what its file, output and exit codes are") {
    const std::string help = run_towers({"replay", "--help"}).out;
    for (const char* part : {"leaves it in the run's folder", "first tensor", "Exit code: 0 when"}) {
        CAPTURE(part);
        CHECK(contains(help, part));
    }
}

TEST_CASE("replay takes a backend's devices and names one that is not there") {
    const TemporaryFolder folder;
    const std::filesystem::path run = folder / "run";
    diverge(run, {"--towers", "cpu", "--batch", "2", "--lr", "1e30"});
    const std::string file = (run / "diverged-1.safetensors").string();
    check_failed(run_towers({"replay", file, "--towers", "cpu,vulkan:99"}), 2, "vulkan:99");
    check_failed(run_towers({"replay", file, "--backend", "gpu"}), 2, "there is no such backend");
    const Outcome outcome = run_towers({"replay", file, "--backend", "cpu"});
    check_worked(outcome);
    CHECK(lines_of(outcome.out).back().starts_with("cpu "));
}
