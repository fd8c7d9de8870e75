// A result goes where the user says, and replaces only a regular file.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

const Arguments bench{"bench", "--towers",      "cpu", "--batch",   "2", "--steps",
                      "1",     "--repetitions", "1",   "--warm-up", "1"};
const Arguments parity{"parity", "--towers", "cpu,cpu", "--batch", "2", "--steps", "1"};

/// Runs `script` in a shell, where $0 is the program and $@ are `command` and --json.
Outcome run_in_shell(const std::string& script, const Arguments& command, const fs::path& folder) {
    return Program(Arguments{"sh", "-c", script, TOWERS_PROGRAM} + command + Arguments{"--json"},
                   {.folder = folder})
        .end();
}

} // namespace

TEST_CASE("a result is written through a symbolic link, and the link stays") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "real");
    fs::create_symlink("real/result.json", folder / "link");
    fs::create_symlink("link", folder / "link to link");
    write_text(folder / "real/result.json", "old");
    for (const Arguments& command : {bench, parity}) {
        check_worked(run_towers(command + Arguments{"--json", (folder / "link to link").string()}));
        CHECK(fs::is_symlink(folder / "link to link"));
        CHECK(fs::is_symlink(folder / "link"));
        CHECK(nlohmann::json::parse(read_text(folder / "real/result.json")).is_object());
        fs::remove(folder / "real/result.json"); // now the link's target must be created
    }
    fs::create_symlink("endless", folder / "endless");
    check_failed(run_towers(parity + Arguments{"--json", (folder / "endless").string()}), 1, "endless");
}

TEST_CASE("writing a result to a device or a pipe does not replace it") {
    const TemporaryFolder folder;
    const fs::path pipe = folder / "pipe", device = folder / "device";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    for (const Arguments& command : {bench, parity}) {
        const Outcome outcome =
            run_in_shell("cat pipe >copy & \"$0\" \"$@\" pipe && wait", command, folder.path());
        check_worked(outcome);
        CHECK(nlohmann::json::parse(read_text(folder / "copy")).is_object());
        CHECK(fs::is_fifo(pipe));
    }
    // A device like /dev/null; only root could replace it.
    if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
        MESSAGE("SKIPPED: this user may not create devices");
        return;
    }
    check_worked(run_towers(bench + Arguments{"--json", device.string()}));
    check_worked(run_towers(bench + Arguments{"--html", device.string()}));
    check_worked(run_towers(parity + Arguments{"--json", device.string()}));
    CHECK(fs::is_character_file(device));
}

TEST_CASE("a result on standard output has nothing else beside it") {
    const TemporaryFolder folder;
    // The link /dev/stdout: a program that replaced it would do so for the whole machine.
    const std::string link = (folder / "stdout").string();
    fs::create_symlink("/proc/self/fd/1", link);
    for (const Arguments& command : {bench, parity}) {
        for (const std::string& name : {std::string("-"), link}) {
            CAPTURE(name);
            const Outcome piped = run_towers(command + Arguments{"--json", name});
            CHECK(piped.code == 0);
            CHECK(nlohmann::json::parse(piped.out).is_object());
            CHECK_FALSE(piped.err.empty()); // the tables
        }
        // Also if standard output is a file
        CHECK(run_in_shell("\"$0\" \"$@\" stdout >file", command, folder.path()).code == 0);
        CHECK(nlohmann::json::parse(read_text(folder / "file")).is_object());
    }
    CHECK(names_in(folder.path()) == std::vector<std::string>{"file", "stdout"});
    check_failed(run_towers(bench + Arguments{"--json", "-", "--html", link}), 2, "both name");
}
