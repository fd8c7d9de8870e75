// Between a run and its resumption devices may change places, get another name, or go. The layer in
// tests/broken_vulkan shows them so.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

/// Trains on a Vulkan device, which changes places with another.
struct TwoDevices {
    TemporaryFolder folder;
    std::string id, name; ///< of the device; "" if this machine has not two
    std::string moved;    ///< its id in the other place
    std::string moving;   ///< the rule that moves it there

    TwoDevices() {
        const std::vector<nlohmann::json> there = vulkan_devices(list_devices());
        if (there.size() != 2 || !quick_device().starts_with("vulkan:")) {
            MESSAGE("SKIPPED: not two Vulkan devices");
            return;
        }
        id = quick_device();
        const bool is_first = there[0].at("id") == id;
        name = there[is_first ? 0 : 1].at("name");
        moved = is_first ? "vulkan:1" : "vulkan:0";
        moving = fmt::format("shown@{}={}", name, is_first ? "last" : "first");
        write_text(folder / "tiny.toml", tiny_recipe("2", "kind = \"momentum\"\nlearning_rate = 0.01"));
    }

    Outcome run(const std::string& run_name, const Arguments& flags, const std::string& rules) const {
        return run_towers(Arguments{"train", "--run", (folder / run_name).string()} + flags,
                          broken_vulkan(rules, folder.path()));
    }
    std::string start(const std::string& run_name, const Arguments& flags,
                      const std::string& rules = "") const {
        const Outcome outcome = run(
            run_name,
            Arguments{"--recipe", (folder / "tiny.toml").string(), "--log-every", "1"} + small_data() + flags,
            rules);
        check_worked(outcome);
        return outcome.out;
    }
    std::string resume(const std::string& run_name, const Arguments& flags, const std::string& rules) const {
        const Outcome outcome = run(run_name, Arguments{"--resume"} + flags, rules);
        check_worked(outcome);
        return outcome.out;
    }
    fs::path copy(const std::string& run_name, const std::string& new_name) const {
        fs::copy(folder / run_name, folder / new_name, fs::copy_options::recursive);
        return folder / new_name;
    }
};

Arguments steps(const char* number) { return {"--steps", number}; }

std::vector<unsigned> last_shares(const fs::path& run) { return metrics(run).back().at("shares"); }

} // namespace

TEST_CASE("a resumed run goes on with its own devices where they are now, to the bit") {
    const TwoDevices two;
    if (two.id.empty()) return;
    const Arguments flags{"--towers", two.id + ",cpu", "--batch", "4", "--shares", "6:2"};
    two.start("whole", flags + steps("4"));
    two.start("parts", flags + steps("2"));
    const fs::path whole = two.folder / "whole", parts = two.folder / "parts";
    const fs::path named = two.copy("parts", "named"), others = two.copy("parts", "others");
    std::string out = two.resume("parts", steps("3"), two.moving);
    CAPTURE(out);
    CHECK(contains(out, fmt::format("tower_0: {} ({}), 6 examples a step", two.moved, two.name)));
    CHECK(contains(out, fmt::format("\nmoved: {} ({}) is {} now\n", two.id, two.name, two.moved)));
    CHECK_FALSE(contains(out, "changed"));
    CHECK(contains(read_text(parts / "config.toml"),
                   fmt::format("towers = '{},cpu'\nshares = '6:2'\n", two.moved)));
    out = two.resume("parts", steps("4"), ""); // and back
    CHECK(contains(out, fmt::format("\nmoved: {} ({}) is {} now\n", two.moved, two.name, two.id)));
    CHECK(any_variables(checkpoint(parts, 4)) == any_variables(checkpoint(whole, 4)));
    CHECK(read_text(parts / "metrics.jsonl") == read_text(whole / "metrics.jsonl"));

    // Named as they are called now, they are the same towers; what was their name means another.
    out = two.resume("named", steps("4") + Arguments{"--towers", two.moved + ",cpu"}, two.moving);
    CHECK_FALSE(contains(out, "changed"));
    CHECK(any_variables(checkpoint(named, 4)) == any_variables(checkpoint(whole, 4)));
    out = two.resume("others", steps("3") + Arguments{"--towers", two.id + ",cpu"}, two.moving);
    CHECK(contains(out, fmt::format("changed: towers from '{},cpu' to '{},cpu'\n", two.moved, two.id)));
    CHECK(contains(out, "changed: shares from '6:2' to 'auto'\n"));
}

TEST_CASE(
    "a device that is gone ends a resumption in one line, unless others are named; a new name does not") {
    const TwoDevices two;
    if (two.id.empty()) return;
    two.start("run", Arguments{"--towers", fmt::format("{0},{0},cpu", two.id), "--batch", "2", "--shares",
                               "even", "--steps", "1"});
    const auto before = contents(two.folder / "run");
    const std::string gone = fmt::format("shown@{}=never", two.name);
    const std::string was =
        fmt::format("--resume: tower_0 was on {} ({}), which is not there", two.id, two.name);
    const Outcome refused = two.run("run", {"--resume", "--steps", "2"}, gone);
    check_failed(refused, 2, was + "; this machine has vulkan:0 (");
    CHECK(refused.err.ends_with("; give --towers cpu to go on without it, or other devices\n"));
    check_failed(two.run("run", {"--resume", "--steps", "2"}, "shown=never"), 2, was + " (vulkan: ");
    const bool untouched = contents(two.folder / "run") == before;
    CHECK(untouched);

    std::string out =
        two.resume("run", steps("2"),
                   fmt::format("deviceName@{}=Voodoo {}", two.name, two.name.substr(0, two.name.find(" ("))));
    CAPTURE(out);
    CHECK(contains(out, fmt::format("\nchanged: {} from {} (", two.id, two.name)));
    CHECK(contains(out, ") to Voodoo "));
    CHECK_FALSE(contains(out, "moved"));
    out = two.resume("run", steps("3") + Arguments{"--towers", "cpu"}, gone);
    CHECK(contains(out, fmt::format("changed: towers from '{0},{0},cpu' to 'cpu'\n", two.id)));
    CHECK(contains(out, "the global batch stays at 6 examples a step\n"));
}

TEST_CASE("a resumption lists devices as often as a start, and not at all with --towers cpu") {
    const TwoDevices two;
    if (two.id.empty()) return;
    const auto enumerated = [&](const Arguments& flags) { // as the layer logs: 1, 2, 4 ... times
        const fs::path log = two.folder / "log";
        fs::remove(log);
        RunOptions options = broken_vulkan("", two.folder.path());
        options.environment.emplace_back("TOWERS_BROKEN_LOG", log.string());
        check_worked(run_towers(Arguments{"train", "--run", (two.folder / "run").string()} + flags, options));
        std::vector<std::string> lines = lines_of(fs::exists(log) ? read_text(log) : "");
        std::erase_if(lines,
                      [](const std::string& line) { return !contains(line, "vkEnumeratePhysicalDevices"); });
        return lines;
    };
    const std::vector<std::string> started = enumerated(
        Arguments{"--recipe", (two.folder / "tiny.toml").string(), "--towers", two.id, "--batch", "2"} +
        small_data() + steps("1"));
    CHECK_FALSE(started.empty());
    CHECK(enumerated(Arguments{"--resume"} + steps("2")) == started);
    CHECK(enumerated(Arguments{"--resume", "--towers", two.id} + steps("3")) == started);
    CHECK(enumerated(Arguments{"--resume", "--towers", "cpu"} + steps("4")).empty());
}

TEST_CASE("--shares @RUN gives a device the shares that it had there") {
    const TwoDevices two;
    if (two.id.empty()) return;
    two.start("recorded",
              Arguments{"--towers", two.id + ",cpu", "--batch", "4", "--shares", "6:2"} + steps("2"));
    const fs::path recorded = two.folder / "recorded", again = two.folder / "again";
    const auto start = [&](const char* run, const std::string& towers, const std::string& rules) {
        return two.start(run,
                         Arguments{"--shares", "@" + recorded.string(), "--batch", "4", "--towers", towers} +
                             steps("2"),
                         rules);
    };
    CHECK_FALSE(contains(start("again", two.moved + ",cpu", two.moving), "the shares follow"));
    CHECK(read_text(again / "metrics.jsonl") == read_text(recorded / "metrics.jsonl"));
    CHECK(any_variables(checkpoint(again, 2)) == any_variables(checkpoint(recorded, 2)));
    CHECK(contains(start("follows", "cpu," + two.moved, two.moving),
                   fmt::format("the shares follow the devices of {}, whose order is --towers {},cpu; the "
                               "last bits of the results depend on it\n",
                               recorded.string(), two.moved)));
    CHECK(last_shares(two.folder / "follows") == std::vector{2u, 6u});
    CHECK(contains(start("other", "cpu,cpu", ""),
                   fmt::format("tower_1 (cpu) takes the shares of {} ({}) in {}\n", two.id, two.name,
                               recorded.string())));
    CHECK(last_shares(two.folder / "other") == std::vector{2u, 6u});
    // As an early version recorded it: there is nothing to follow.
    fs::remove(recorded / "times.jsonl");
    start("early", "cpu,cpu", "");
    CHECK(last_shares(two.folder / "early") == std::vector{6u, 2u});
}
