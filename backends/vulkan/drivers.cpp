#include "backends/vulkan/drivers.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace towers::vulkan {
namespace {

constexpr unsigned time_limit = 30; // seconds; a server with many cards needs some to wake them

/// The loader uses only the manifests that these variables name. Loaders before 1.3.207 know only the second;
/// later ones prefer the first.
constexpr const char* chosen_drivers = "VK_DRIVER_FILES";
constexpr const char* chosen_for_old_loaders = "VK_ICD_FILENAMES";

void choose(const std::string& manifests) {
    for (const char* const variable : {chosen_drivers, chosen_for_old_loaders})
        setenv(variable, manifests.c_str(), 1);
}

void choose(const std::vector<std::string>& manifests) {
    choose(fmt::format("{}", fmt::join(manifests, ":")));
}

/// The child's report on a trial; the message of an exception may take its place.
constexpr std::string_view devices_found = "devices", no_device = "no device is found";

struct Ended {
    std::string text; ///< its output, up to a pipe's size
    int status = 0;   ///< as waitpid() has it
};

/// Runs `task` in a child process with a pipe for its output, which never blocks.
Ended run_apart(const std::function<void(int pipe)>& task) {
    Ended ended;
    int ends[2];
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return {std::string(devices_found)}; // as if successful
    const pid_t child = fork();
    if (child < 0) ended.text = devices_found; // likewise
    if (child == 0) {
        for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV})
            std::signal(signal, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        alarm(time_limit);          // ends the child, whatever hangs
        const rlimit no_core{1, 1}; // 0 would not stop a program that collects core files
        setrlimit(RLIMIT_CORE, &no_core);
        const int null = open("/dev/null", O_RDWR);
        for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) dup2(null, stream);
        task(ends[1]);
        _exit(0); // must not flush or destroy the parent's objects
    }
    close(ends[1]);
    while (child > 0 && waitpid(child, &ended.status, 0) < 0 && errno == EINTR) {
    }
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
        ended.text.append(buffer, std::size_t(got));
    close(ends[0]);
    return ended;
}

/// Why these manifests, or all if none are given, give no device; empty if there is one.
std::string try_start(const StartVulkan& start, const std::vector<std::string>& manifests = {}) {
    const Ended ended = run_apart([&](int pipe) {
        std::string verdict;
        try {
            if (!manifests.empty()) choose(manifests);
            verdict = start() ? devices_found : no_device;
        } catch (const std::exception& error) {
            verdict = error.what();
        }
        [[maybe_unused]] const ssize_t written = write(pipe, verdict.data(), verdict.size());
    });
    if (ended.text == devices_found) return "";
    if (!ended.text.empty()) return ended.text;
    if (!WIFSIGNALED(ended.status)) return "it ends the program";
    if (WTERMSIG(ended.status) == SIGALRM) return fmt::format("it takes more than {} s", time_limit);
    return fmt::format("it crashes ({})", strsignal(WTERMSIG(ended.status)));
}

std::vector<std::string> find_manifests(const StartVulkan& start) {
    return manifests_in(run_apart([&](int pipe) {
                            dup2(pipe, STDERR_FILENO);
                            setenv("VK_LOADER_DEBUG", "driver", 1);
                            setenv("VK_LOADER_DRIVERS_DISABLE", "*", 1); // lists them, starts none
                            try {
                                start();
                            } catch (const std::exception&) { // as expected
                            }
                        }).text);
}

} // namespace

std::vector<std::string> manifests_in(const std::string& log) {
    std::vector<std::string> found;
    bool listing = false;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        constexpr std::string_view category = "DRIVER:";
        const std::size_t start = line.find(category);
        if (start == line.npos) continue;
        const std::size_t text = line.find_first_not_of(' ', start + category.size());
        line.erase(0, text);
        if (line == "Found the following files:")
            listing = true;
        else if (!line.ends_with(".json"))
            listing = false;
        else if (listing && std::find(found.begin(), found.end(), line) == found.end())
            found.push_back(line);
    }
    return found;
}

Drivers leave_out_failing_drivers(const StartVulkan& start) {
    // The user's choice applies to every loader.
    if (const char* const chosen = std::getenv(chosen_drivers); chosen != nullptr && *chosen != 0)
        choose(std::string(chosen));
    Drivers drivers;
    const std::string all_together = try_start(start);
    if (all_together.empty()) return drivers;
    const auto leave_out = [&](const std::string& manifest, const std::string& reason) {
        drivers.left_out.push_back(
            {manifest, fmt::format("Vulkan does not start with its driver: {}", reason)});
    };
    std::vector<std::string> working, idle;
    for (const std::string& manifest : find_manifests(start))
        if (const std::string reason = try_start(start, {manifest}); reason.empty())
            working.push_back(manifest);
        else if (reason == no_device)
            idle.push_back(manifest);
        else
            leave_out(manifest, reason);

    if (!working.empty()) {
        // Now tries them together. A driver that cannot list its devices seems harmless alone, but may hide
        // the others' devices.
        std::vector<std::string> rest = std::exchange(working, {});
        rest.insert(rest.end(), idle.begin(), idle.end());
        for (const std::string& manifest : rest) {
            working.push_back(manifest);
            if (const std::string reason = try_start(start, working); !reason.empty()) {
                working.pop_back();
                leave_out(manifest, reason);
            }
        }
    }
    if (!working.empty())
        choose(working);
    else if (!drivers.left_out.empty())
        drivers.failure = "no Vulkan driver that starts finds a device";
    else if (all_together != no_device) // no single driver is to blame, or the loader lists none
        drivers.failure = fmt::format("Vulkan does not start: {}; name the drivers to use in {}",
                                      all_together, chosen_drivers);
    return drivers;
}

} // namespace towers::vulkan
