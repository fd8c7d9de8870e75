// The README's commands must work. Its commands run here one after another in a new folder, on what every
// machine has: - each device but `cpu` becomes `cpu`, and CIFAR-10 a few random records; - files that an hour
// of training would have made are made beforehand; - runs are cut short and images made small (`shortened`),
// since what is tested is the command. Other tests run commands that install or build: tests/os/,
// tests/tools/install.sh.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <regex>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// The README's commands in order. Its TOML blocks become mine.toml, as its text says.
struct Readme {
    std::vector<std::string> commands;
    std::string recipe;
};

Readme read_readme() {
    Readme readme;
    std::string block; // the language of the one that we are in, "text" without one
    for (const std::string& line : lines_of(read_text(source_folder() / "README.md"))) {
        if (line.starts_with("```")) {
            const std::string language = line.size() > 3 ? line.substr(3) : "text";
            block = block.empty() ? language : "";
        } else if (block == "toml") {
            readme.recipe += line + "\n";
        } else if (block == "sh" && !line.empty()) {
            readme.commands.push_back(line);
        } else if (block == "text" && line.starts_with("$ ")) {
            readme.commands.push_back(line.substr(2));
        }
    }
    return readme;
}

/// Commands that other tests run, or that cannot run.
bool runs_elsewhere(const std::string& command) {
    return command.starts_with("sh cmake/quickstart.sh ") || command.starts_with("cmake --install ") ||
           command.starts_with("git clone ");
}

std::string shortened(std::string command) {
    command = std::regex_replace(command, std::regex(" +#.*"), "");
    command = std::regex_replace(command, std::regex("build/release/towers"), "towers");
    command = std::regex_replace(command, std::regex("(cuda|vulkan):[0-9]+"), "cpu");
    command = std::regex_replace(command, std::regex("--steps [0-9]+"), "--steps 2");
    command = std::regex_replace(command, std::regex("--interval [0-9]+"), "--interval 1");
    command = std::regex_replace(command, std::regex("--batch (64|256)"), "--batch 32"); // the smallest group
    command = std::regex_replace(command, std::regex("\\[64,64,3\\]"), "[40,40,3]");
    command =
        std::regex_replace(command, std::regex("--threads [0-9]+"), "--threads 1"); // there may be no more
    const auto add = [&](const char* of, const char* flag, const char* value) {
        if (command.starts_with(of) && !contains(command, flag) && !contains(command, "--resume"))
            command += std::string(" ") + flag + " " + value;
    };
    add("towers train ", "--steps", "2");
    if (!contains(command, "--recipe"))
        add("towers train ", "--batch", "4"); // others have groups of examples
    if (contains(command, "--recipe imagenet-")) command += " --set 'input.shape=[64,64,3]'";
    add("towers bench ", "--batch", "2");
    add("towers bench ", "--steps", "1");
    add("towers bench ", "--warm-up", "1");
    add("towers bench ", "--repetitions", "1");
    add("towers parity ", "--batch", "2");
    add("towers parity ", "--steps", "1");
    return command;
}

} // namespace

TEST_CASE("the README's commands work") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "bin");
    fs::create_symlink(TOWERS_PROGRAM, folder / "bin/towers");
    const RunOptions options{.folder = folder.path(),
                             .environment = {{"PATH", (folder / "bin").string() + ":/usr/bin:/bin"},
                                             {"VK_DRIVER_FILES", "/nonexistent"},
                                             {"CUDA_VISIBLE_DEVICES", ""}}};
    const auto run = [&](const std::string& command) {
        return Program({"sh", "-c", command}, options).end();
    };

    const Readme readme = read_readme();
    CHECK(readme.commands.size() > 20);
    write_text(folder / "mine.toml", readme.recipe);
    write_records(folder / "cifar-10-batches-bin", 30);
    CHECK(run("towers data import cifar-10-batches-bin imported --as folder").code == 0);
    for (const char* name : {"cat", "dog"}) {
        fs::create_directories(folder / "photos");
        fs::rename(folder / "imported/train" / name, folder / "photos" / name);
    }
    CHECK(run("towers train --towers cpu --batch 2 --steps 5 --lr 1e30 --run diverged").code == 1);
    for (const std::string& command : readme.commands) {
        CAPTURE(command);
        if (runs_elsewhere(command)) continue;
        const std::string to_run = shortened(command);
        CAPTURE(to_run);
        CHECK(to_run.starts_with("towers "));
        // Stand-ins for files that the reader's earlier commands would have written.
        const fs::path first = checkpoint(folder / "runs/first", 2);
        if (contains(to_run, "model.ckpt-2000") && fs::exists(first))
            fs::copy_file(first, folder / "model.ckpt-2000.safetensors",
                          fs::copy_options::overwrite_existing);
        if (contains(to_run, "diverged-12"))
            for (const std::string& name : names_in(folder / "diverged"))
                if (name.starts_with("diverged-"))
                    fs::copy_file(folder / "diverged" / name, folder / "runs/first/diverged-12.safetensors",
                                  fs::copy_options::overwrite_existing);
        const Outcome outcome = run(to_run);
        CAPTURE(outcome.out);
        const std::string said = contains(to_run, "--data photos") ? "become images of 40x40x3" : "";
        CHECK(contains(outcome.err, said));
        CHECK(lines_of(outcome.err).size() == (said.empty() ? 0 : 2)); // training and test
        CHECK(outcome.code == 0);
    }
}
