// A shell completes what the program accepts: no flag is missing, and no offered word is wrong.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>
#include <sstream>

using namespace towers::test;

namespace {

/// Bash with the program's script; `program` is run where the script asks for devices.
class Bash {
public:
    Bash() {
        const Outcome script = run_towers({"completion", "bash"});
        check_worked(script);
        write_text(folder_ / "towers.bash", script.out);
        write_text(folder_ / "devices",
                   "#!/bin/sh\necho 'cuda       absent: no driver'\n"
                   "echo 'vulkan:0   a card'\necho 'vulkan:12  another'\n"
                   "echo 'vulkan     left out: old: no Vulkan 1.3'\necho 'cpu        a CPU'\n");
        std::filesystem::permissions(folder_ / "devices", std::filesystem::perms::owner_all);
    }

    /// What it offers at the end of the last word. Words are as bash divides them, also at : and =.
    std::vector<std::string> complete(const Arguments& words) const {
        Arguments command{"bash", "--norc", "-c", R"(
            . ./towers.bash
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
            _towers ./devices "${COMP_WORDS[COMP_CWORD]}"
            [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}")", "bash", "./devices"};
        const Outcome outcome = Program(command + words, {.folder = folder_.path()}).end();
        CHECK(outcome.err == "");
        CHECK(outcome.code == 0);
        return lines_of(outcome.out);
    }

    const std::filesystem::path& folder() const { return folder_.path(); }

private:
    TemporaryFolder folder_;
};

using Words = std::vector<std::string>;

std::string output_of(const std::string& command, const RunOptions& options = {}) {
    const Outcome outcome = Program({"sh", "-c", command}, options).end();
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
    return outcome.out;
}

bool has(const char* shell) {
    return Program({"sh", "-c", std::string("command -v ") + shell}).end().code == 0;
}

} // namespace

TEST_CASE("bash completes commands, flags and values") {
    const Bash bash;
    CHECK(bash.complete({"tr"}) == Words{"train"});
    CHECK(bash.complete({"data", "de"}) == Words{"describe"});
    CHECK(bash.complete({"train", "--global"}) == Words{"--global-batch"});
    CHECK(bash.complete({"recipe", "show", "vgg"}) == Words{"vgg16-bn"});
    CHECK(bash.complete({"train", "--on-device-loss", ""}) == Words{"continue", "stop"});
    CHECK(bash.complete({"train", "--precision", ""}) == Words{"fp32", "tf32", "bf16", "fp16"});
    CHECK(bash.complete({"bench", "--precision", "b"}) == Words{"bf16"});
    CHECK(bash.complete({"train", "--wire", ""}) == Words{"fp32", "bf16"});
    CHECK(bash.complete({"train", "--recipe", "=", "mobile"}) == Words{"mobilenet-v2"});
    CHECK(bash.complete({"train", "--quirks", "all,st"}) == Words{"all,step-schedule"});
    // A number has nothing to complete, the flag after one has.
    CHECK(bash.complete({"train", "--steps", ""}).empty());
    CHECK(bash.complete({"train", "--steps", "5", "--eval-e"}) == Words{"--eval-every"});
    // One may or may not give this flag a value.
    CHECK(bash.complete({"train", "--log-towers", "o"}) == Words{"on", "off"});
    CHECK(bash.complete({"train", "--log-towers", "--resume-"}) == Words{"--resume-from"});
    CHECK(bash.complete({"train", "--set", "optimizer.momentum", "=", "--resume-"}) ==
          Words{"--resume-from"});
    // Flags of another command, and commands after a command
    CHECK(bash.complete({"eval", "--global"}).empty());
    CHECK(bash.complete({"train", "ev"}).empty());
    write_text(bash.folder() / "mine.toml", "");
    CHECK(bash.complete({"recipe", "check", "mi"}) == Words{"mine.toml"});
}

TEST_CASE("bash completes the devices that there are, also in a list") {
    const Bash bash;
    CHECK(bash.complete({"eval", "--towers", ""}) == Words{"vulkan:0", "vulkan:12", "cpu"});
    CHECK(bash.complete({"eval", "--towers", "cpu,v"}) == Words{"cpu,vulkan:0", "cpu,vulkan:12"});
    // Bash replaces what follows the colon.
    CHECK(bash.complete({"eval", "--towers", "vulkan", ":", "1"}) == Words{"12"});
    CHECK(bash.complete({"eval", "--towers", "=", "vulkan", ":", "0,c"}) == Words{"0,cpu"});
}

TEST_CASE("shells complete every flag of every command") {
    const Bash bash;
    const std::string fish = run_towers({"completion", "fish"}).out;
    const std::string zsh = run_towers({"completion", "zsh"}).out;
    for (const Arguments& command : std::vector<Arguments>{{},
                                                           {"train"},
                                                           {"eval"},
                                                           {"bench"},
                                                           {"parity"},
                                                           {"replay"},
                                                           {"data", "import"},
                                                           {"recipe", "describe"}}) {
        std::set<std::string> in_help, offered;
        for (std::string line : lines_of(run_towers(command + Arguments{"--help"}).out)) {
            const std::size_t begin = line.find("--");
            if (begin == std::string::npos || (begin != 2 && !line.starts_with("  -h,"))) continue;
            std::istringstream flags(line.substr(begin, line.find(' ', begin) - begin));
            for (std::string flag; std::getline(flags, flag, ',');) in_help.insert(flag);
        }
        CHECK(in_help.size() > 1);
        for (const std::string& flag : bash.complete(command + Arguments{"--"})) offered.insert(flag);
        CHECK(offered == in_help);
        for (const std::string& flag : in_help) {
            CAPTURE(flag);
            CHECK(contains(fish, " -l " + flag.substr(2) + " "));
            CHECK(contains(zsh, flag));
        }
    }
}

TEST_CASE("the program accepts the words that shells offer") {
    const Bash bash;
    const TemporaryFolder folder;
    unsigned words = 0;
    for (const char* const command : {"train", "eval"})
        for (const char* const flag : {"--format", "--shares", "--feed", "--tune", "--on-device-loss",
                                       "--wire", "--quirks", "--split", "--progress"}) {
            const std::vector<std::string> offered = bash.complete({command, flag, ""});
            for (const std::string& word : offered) {
                if (word == "devices" || word == "towers.bash") continue; // files in its folder
                CAPTURE(flag);
                CAPTURE(word);
                ++words;
                // Something else is wrong: the data are not there.
                const Arguments given = {command, flag, word, "--data", "/nonexistent"};
                const Arguments where = command == std::string("train")
                                            ? Arguments{"--run", "r"}
                                            : Arguments{"--recipe", "cifar10-tutorial"};
                const Outcome outcome = run_towers(given + where, {.folder = folder.path()});
                CHECK(outcome.code != 0);
                CHECK_FALSE(contains(outcome.err, std::string(flag) + " '"));
                CHECK_FALSE(contains(outcome.err, std::string(flag) + " " + word + ":"));
            }
        }
    CHECK(words > 25);
    std::set<std::string> backends; // each is absent or has devices
    for (const std::string& line : lines_of(run_towers({"devices"}).out))
        backends.insert(line.substr(0, line.find_first_of(": ")));
    const std::vector<std::string> offered = bash.complete({"train", "--backend", ""});
    CHECK(std::set(offered.begin(), offered.end()) == backends);
    const Outcome wrong =
        run_towers({"train", "--quirks", "x", "--data", "/nonexistent"}, {.folder = folder.path()});
    CHECK(contains(wrong.err, "--quirks 'x'"));
    for (const std::string& word : bash.complete({"train", "--quirks", ""})) CHECK(contains(wrong.err, word));
}

TEST_CASE("zsh and fish take their scripts") {
    const TemporaryFolder folder;
    const RunOptions here{.folder = folder.path(), .environment = {{"HOME", folder.path().string()}}};
    for (const char* const shell : {"zsh", "fish"}) {
        if (!has(shell)) {
            MESSAGE("SKIPPED " << shell << ": it is not installed");
            continue;
        }
        write_text(folder / "script", run_towers({"completion", shell}).out);
        output_of(std::string(shell) + " -n script", here);
    }
    if (!has("fish")) return;
    const auto complete = [&](const std::string& line) {
        std::vector<std::string> words;
        for (const std::string& each :
             lines_of(output_of("fish --no-config -c \"source script; complete -C '" + line + "'\"", here)))
            words.push_back(each.substr(0, each.find('\t')));
        return words;
    };
    CHECK(complete("towers tr") == Words{"train"});
    CHECK(complete("towers data de") == Words{"describe"});
    CHECK(complete("towers train --global") == Words{"--global-batch"});
    CHECK(complete("towers recipe show vgg") == Words{"vgg16-bn"});
    CHECK(complete("towers train --on-device-loss ") == Words{"continue", "stop"});
    CHECK(complete("towers train --quirks all,st") == Words{"all,step-schedule"});
}

TEST_CASE("completion of an unknown shell is refused") {
    check_failed(run_towers({"completion", "tcsh"}), 2, "shell: give bash or zsh or fish");
    check_failed(run_towers({"completion"}), 2, "give the shell");
}
