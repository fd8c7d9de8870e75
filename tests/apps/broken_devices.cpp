// A driver that hangs, crashes or refuses before the first step must not take the other devices away, nor end
// the program without a word. The layer in tests/broken_vulkan does this to an installed driver.
#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <chrono>
#include <csignal>
#include <deque>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <thread>
#include <vector>

using namespace towers::test;
namespace fs = std::filesystem;

namespace {

struct Training {
    TemporaryFolder folder;
    std::string name = "run";
    fs::path run() const { return folder / name; }

    Training() {
        write_text(folder / "tiny.toml", tiny_recipe("4", "kind = \"sgd\"\nlearning_rate = 0.1\n"));
    }
    Arguments command(const Arguments& flags, unsigned steps = 4, unsigned timeout = 1) const {
        return Arguments{"train",       "--data", "shapes",       "--batch", "8",
                         "--log-every", "1",      "--save-every", "1000000"} +
               Arguments{"--recipe", (folder / "tiny.toml").string(), "--run", run().string()} +
               Arguments{"--steps", std::to_string(steps), "--device-timeout", std::to_string(timeout)} +
               flags;
    }
    RunOptions under(const std::string& rules) const { return broken_vulkan(rules, folder.path()); }
    Outcome train(const std::string& rules, const Arguments& flags) const {
        return run_towers(command(flags), under(rules));
    }
};

/// These rules for this device alone, which is a card, so that a training takes it by default.
std::string as_card(const std::string& id, const std::string& rule) {
    std::string name, of_it = rule;
    for (const nlohmann::json& device : vulkan_devices(list_devices()))
        if (device.at("id") == id) name = device.at("name");
    return "deviceType@" + name + "=discrete;" + of_it.insert(rule.find_first_of("#="), "@" + name);
}

std::size_t lines(const std::string& text) { return lines_of(text).size(); }

} // namespace

TEST_CASE("a driver that hangs before the first step: alone one line, beside others they go on") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    struct Hang {
        const char *call, *words;
    };
    const Hang hangs[] = {
        {"vkCreateDevice#1+", "no answer from vkCreateDevice for 1 s while opening the device"},
        {"vkAllocateMemory#1+", "no answer from vkAllocateMemory for 1 s while allocating memory"},
        {"vkAllocateMemory#3+", "no answer from vkAllocateMemory for 1 s while allocating memory"},
        {"vkCreateComputePipelines#1+",
         "no answer from vkCreateComputePipelines for 10 s while preparing kernels"},
        {"vkCreateComputePipelines#4+",
         "no answer from vkCreateComputePipelines for 10 s while preparing kernels"},
        {"vkQueueWaitIdle#1+", "no answer from vkQueueWaitIdle for "},
        {"vkWaitSemaphores#1+", "no answer from vkWaitSemaphores for "},
    };
    // Several at the same time, since most of it is waiting, but not all, since a driver that starts has 1 s
    std::deque<Training> trainings;
    const auto outcomes = [&](const std::string& devices) {
        std::deque<Program> programs;
        for (const Hang& hang : hangs) {
            const Training& training = trainings.emplace_back();
            programs.emplace_back(towers_command(training.command({"--towers", devices})),
                                  training.under(std::string(hang.call) + "=hang"));
        }
        std::vector<Outcome> ends;
        for (Program& program : programs) ends.push_back(program.end());
        return ends;
    };
    const std::vector<Outcome> alone = outcomes(id), together = outcomes("cpu," + id);
    for (std::size_t i = 0; i < std::size(hangs); ++i) {
        const Hang& hang = hangs[i];
        CAPTURE(hang.call);
        const Outcome &one = alone[i], &two = together[i];
        CHECK(one.code == 1);
        CHECK(lines(one.err) == 1);
        CHECK_MESSAGE(contains(one.err, hang.words), one.err);
        CHECK_MESSAGE(two.code == 0, two.err);
        CHECK_MESSAGE(contains(two.out + two.err, "tower_1 (" + id + ") failed and is dropped"), two.out);
        CHECK_MESSAGE(contains(two.out + two.err, hang.words), two.out);
        CHECK(contains(two.out, "done: saved "));
    }
}

TEST_CASE("a device that cannot be opened: named it is one line before anything is written, by default it is "
          "left out") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    struct Fault {
        const char *rule, *words;
    };
    const Fault faults[] = {
        {"vkCreateDevice=VK_ERROR_INITIALIZATION_FAILED", "vkCreateDevice"},
        {"vkCreateDevice=VK_ERROR_DEVICE_LOST", "ErrorDeviceLost"},
        {"vkCreateDevice=crash",
         "its driver crashed (Segmentation fault) while opening the device (vkCreateDevice)"},
        {"vkCreateDevice=abort", "its driver crashed (Aborted) while opening the device (vkCreateDevice)"},
        {"vkCreateComputePipelines=crash",
         "its driver crashed (Segmentation fault) while preparing kernels (vkCreateComputePipelines)"},
        {"vkCreateCommandPool=VK_ERROR_OUT_OF_HOST_MEMORY", "ErrorOutOfHostMemory"},
        {"vkCreateDevice=hang", "no answer from vkCreateDevice for 1 s while opening the device"},
    };
    for (const Fault& fault : faults) {
        CAPTURE(fault.rule);
        const Training named;
        const Outcome refused = named.train(fault.rule, {"--towers", id});
        CHECK(refused.code == 1);
        CHECK_MESSAGE(lines(refused.err) == 1, refused.err);
        CHECK_MESSAGE(contains(refused.err, fault.words), refused.err);
        CHECK(refused.err.starts_with("towers: " + id));
        CHECK_FALSE(fs::exists(named.run()));

        const Training unnamed;
        const Outcome went_on = unnamed.train(as_card(id, fault.rule), {});
        CHECK_MESSAGE(went_on.code == 0, went_on.err);
        CHECK_MESSAGE(contains(went_on.err, "is left out: "), went_on.err);
        CHECK_MESSAGE(contains(went_on.err, fault.words), went_on.err);
        CHECK(contains(went_on.out, "done: saved "));
        CHECK(contains(went_on.out, "cpu"));
    }
}

TEST_CASE("a dead card does not take the machine's other cards away") {
    const std::vector<nlohmann::json> there = vulkan_devices(list_devices());
    if (there.size() < 2) {
        MESSAGE("SKIPPED: fewer than two Vulkan devices");
        return;
    }
    const std::string dead = there[0].at("name"), healthy = there[1].at("id");
    for (const std::string fault : {"crash", "VK_ERROR_DEVICE_LOST"}) {
        CAPTURE(fault);
        const Training training;
        const Outcome outcome =
            training.train("deviceType=discrete;vkCreateDevice@" + dead + "=" + fault, {"--threads", "1"});
        CHECK_MESSAGE(outcome.code == 0, outcome.err);
        CHECK_MESSAGE(contains(outcome.out + outcome.err, dead), outcome.out);
        CHECK_MESSAGE(contains(outcome.out, healthy), outcome.out);
    }
}

TEST_CASE("a driver that crashes in a step ends the program with a line that says how to go on") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const Training training;
    const Outcome outcome =
        run_towers(training.command({"--towers", id}, 1000), training.under("vkWaitSemaphores#20+=crash"));
    check_failed(outcome, 1, id);
    CHECK_MESSAGE(contains(outcome.err, "its driver crashed (Segmentation fault)"), outcome.err);
    CHECK_MESSAGE(contains(outcome.err,
                           "go on from the last checkpoint in " + training.run().string() + " with --resume"),
                  outcome.err);
    check_worked(run_towers({"train", "--run", training.run().string(), "--resume", "--steps", "1"}));
}

TEST_CASE("SIGTERM and SIGINT end a program whose driver hangs, with a line, within seconds") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    using Clock = std::chrono::steady_clock;
    for (const int signal : {SIGTERM, SIGINT})
        for (const bool in_step : {false, true}) {
            CAPTURE(signal);
            CAPTURE(in_step);
            const Training training;
            const fs::path hang = training.folder / "hang";
            const std::string call = in_step ? "vkWaitSemaphores" : "vkCreateDevice";
            if (!in_step) write_text(hang, "");
            Program program(towers_command(training.command({"--towers", id}, 1000000, 100)),
                            training.under(call + "?" + hang.string() + "=hang"));
            if (in_step) {
                REQUIRE(program.wait_for_lines(": step ", 5));
                write_text(hang, "");
            }
            const Clock::time_point from = Clock::now();
            program.wait_until([&] { return Clock::now() - from > std::chrono::seconds(3); });
            program.send(signal);
            const Clock::time_point sent = Clock::now();
            const Outcome outcome = program.end();
            CHECK(std::chrono::duration<double>(Clock::now() - sent).count() < 5);
            CHECK(outcome.code == (in_step ? 1 : -signal));
            CHECK_MESSAGE(contains(outcome.err, id), outcome.err);
            CHECK_MESSAGE(contains(outcome.err, call), outcome.err);
            CHECK_MESSAGE(lines(outcome.err) == 1, outcome.err);
        }
}

TEST_CASE("the other commands, too, give up a driver that hangs") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const Training training;
    check_worked(training.train("", {"--towers", "cpu"}));
    const Arguments limit{"--device-timeout", "1"},
        tiny{"--recipe", (training.folder / "tiny.toml").string()};
    const std::pair<const char*, Arguments> commands[] = {
        {"eval", Arguments{"eval", "--run", training.run().string(), "--towers", id} + limit},
        {"parity",
         Arguments{"parity", "--towers", "cpu," + id, "--data", "shapes", "--batch", "4"} + tiny + limit},
        {"bench", Arguments{"bench", "--towers", id, "--batch", "4", "--seconds", "0.01"} + tiny + limit},
    };
    for (const auto& [name, command] : commands) {
        const std::string called = name; // clang 14 cannot CAPTURE a structured binding
        CAPTURE(called);
        const Outcome outcome = run_towers(command, training.under("vkCreateDevice=hang"));
        CHECK(outcome.code == 1);
        CHECK_MESSAGE(contains(outcome.out + outcome.err,
                               "no answer from vkCreateDevice for 1 s while opening the device"),
                      outcome.err);
    }
    // The first process is the child that tries the drivers.
    const Outcome devices = run_towers(
        Arguments{"devices"} + limit,
        training.under("vkEnumeratePhysicalDevices?" + (training.folder / "tiny.toml").string() + "=hang"));
    CHECK(devices.code == 0);
    CHECK_MESSAGE(contains(devices.out, "vulkan     absent: "), devices.out);
}

TEST_CASE("a driver that answers too late touches nothing any more") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    using Clock = std::chrono::steady_clock;
    const Training training;
    Program program(towers_command(training.command({"--towers", "cpu," + id}, 100000000)),
                    training.under("vkMapMemory#1+=slow=2500"));
    REQUIRE(program.wait_for_lines("is dropped", 1));
    const Clock::time_point from = Clock::now();
    program.wait_until([&] { return Clock::now() - from > std::chrono::seconds(3); });
    program.send(SIGTERM);
    const Outcome outcome = program.end();
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(contains(outcome.out, "stopped: saved "));
}

TEST_CASE("a device that lacks only memory is not left out, and the CPU is never") {
    const std::string id = quick_device();
    if (!id.starts_with("vulkan:")) return;
    const Training training;
    const Outcome outcome =
        training.train(as_card(id, "vkAllocateMemory#3+=VK_ERROR_OUT_OF_DEVICE_MEMORY"), {});
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(lines(outcome.err) == 1, outcome.err);
    CHECK_MESSAGE(contains(outcome.err, "try a smaller --batch"), outcome.err);

    // It has nothing to start over with.
    const TemporaryFolder folder;
    const Outcome refused = run_towers({"train", "--data", "shapes", "--batch", "3000", "--steps", "1"},
                                       {.folder = folder.path(),
                                        .environment = {{"VK_DRIVER_FILES", "none"}},
                                        .address_space = std::size_t(300000) << 10});
    CHECK(refused.code == 1);
    CHECK_MESSAGE(lines(refused.err) == 1, refused.err);
}

TEST_CASE("a search for drivers that do not answer ends with a line, and with the program") {
    if (!quick_device().starts_with("vulkan:")) return;
    const TemporaryFolder folder;
    using Clock = std::chrono::steady_clock;
    for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
        CAPTURE(signal);
        Program program(towers_command({"devices"}),
                        broken_vulkan("vkEnumeratePhysicalDevices=slow=20000", folder.path()));
        const fs::path children = fmt::format("/proc/{0}/task/{0}/children", program.process());
        const Clock::time_point from = Clock::now();
        program.wait_until([&] { return Clock::now() - from > std::chrono::seconds(3); });
        std::string child = read_text(children);
        child.erase(child.find_last_not_of(' ') + 1);
        REQUIRE_FALSE(child.empty());
        program.send(signal);
        const Outcome outcome = program.end();
        CHECK(outcome.code == -signal);
        if (signal != SIGKILL) {
            CHECK_MESSAGE(contains(outcome.err, "vulkan has not answered for "), outcome.err);
            CHECK_MESSAGE(contains(outcome.err, " while trying its drivers"), outcome.err);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const auto state = [&] { // a zombie whose new parent does not wait is as good as gone
            const fs::path stat = "/proc/" + child + "/stat";
            return fs::exists(stat) ? read_text(stat) : std::string(") Z");
        };
        CHECK(contains(state(), ") Z"));
    }
}
