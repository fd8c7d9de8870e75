#include "backends/vulkan/drivers.h"

#include "backends/driver_call.h"
#include "backends/vulkan/implicit_layers.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace towers::vulkan {
namespace {

// In seconds. A server with many cards needs some to wake them, but only once.
constexpr unsigned time_limit = 30, time_limit_awake = 10;

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

/// A child process that runs `task`, with a pipe for its output, which never blocks.
class Child {
public:
    Child(const std::function<void(int pipe)>& task, unsigned seconds) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return;
        output_ = ends[0];
        const pid_t parent = getpid();
        process_ = fork();
        if (process_ == 0) run(task, ends[1], seconds, parent);
        close(ends[1]);
    }

    Ended end() const {
        Ended ended;
        if (process_ < 0) ended.text = devices_found; // there is none: as if successful
        if (process_ > 0) tell_if_slow();
        while (process_ > 0 && waitpid(process_, &ended.status, 0) < 0 && errno == EINTR) {
        }
        char buffer[4096];
        for (ssize_t got; (got = read(output_, buffer, sizeof(buffer))) > 0;)
            ended.text.append(buffer, std::size_t(got));
        close(output_);
        return ended;
    }

private:
    /// Waits for the end, or until the user has been told, once, what the program waits for.
    void tell_if_slow() const {
        constexpr int patience = 10'000; // milliseconds
        static bool told = false;
        pollfd end{output_, 0, 0}; // which the child's end hangs up
        if (told || poll(&end, 1, patience) != 0) return;
        spdlog::warn("vulkan: a driver or layer has not answered for {} s; the search for it goes on",
                     patience / 1000);
        told = true;
    }

    [[noreturn]] static void run(const std::function<void(int pipe)>& task, int pipe, unsigned seconds,
                                 pid_t parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0); // it ended before
        for (const int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL, SIGSEGV})
            std::signal(signal, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        alarm(seconds);             // ends the child, whatever hangs
        const rlimit no_core{1, 1}; // 0 would not stop a program that collects core files
        setrlimit(RLIMIT_CORE, &no_core);
        const int null = open("/dev/null", O_RDWR);
        for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) dup2(null, stream);
        task(pipe);
        _exit(0); // must not flush or destroy the parent's objects
    }

    pid_t process_ = -1;
    int output_ = -1;
};

/// What Vulkan is started with, and how long that may take.
struct Trial {
    std::vector<std::string> manifests = {}; ///< the drivers'; if empty, all
    std::vector<ImplicitLayer> without = {};
    unsigned seconds = time_limit;
};

/// Why each trial gives no device; empty if there is one. They run side by side, so that drivers that hang
/// cost the time of one.
std::vector<std::string> try_all(const StartVulkan& start, const std::vector<Trial>& trials) {
    std::vector<Child> children;
    for (const Trial& trial : trials)
        children.emplace_back(
            [&](int pipe) {
                std::string verdict;
                try {
                    if (!trial.manifests.empty()) choose(trial.manifests);
                    disable(trial.without);
                    verdict = start() ? devices_found : no_device;
                } catch (const std::exception& error) {
                    verdict = error.what();
                }
                [[maybe_unused]] const ssize_t written = write(pipe, verdict.data(), verdict.size());
            },
            trial.seconds);
    std::vector<std::string> reasons;
    for (std::size_t i = 0; i < trials.size(); ++i) {
        const Ended ended = children[i].end();
        const int signal = WIFSIGNALED(ended.status) ? WTERMSIG(ended.status) : 0;
        reasons.push_back(ended.text == devices_found ? ""
                          : !ended.text.empty()       ? ended.text
                          : signal == 0               ? "it ends the program"
                          : signal == SIGALRM ? fmt::format("it takes more than {} s", trials[i].seconds)
                                              : fmt::format("it crashes ({})", strsignal(signal)));
    }
    return reasons;
}

std::string try_one(const StartVulkan& start, const Trial& trial) { return try_all(start, {trial}).front(); }

/// `kind`: of VK_LOADER_DEBUG, `driver` or `layer`.
std::vector<std::string> find_manifests(const StartVulkan& start, const char* kind) {
    const auto list = [&](int pipe) {
        dup2(pipe, STDERR_FILENO);
        setenv("VK_LOADER_DEBUG", kind, 1);
        setenv("VK_LOADER_DRIVERS_DISABLE", "*", 1); // lists them, starts none
        try {
            start();
        } catch (const std::exception&) { // as expected
        }
    };
    return manifests_in(Child(list, time_limit_awake).end().text);
}

/// Finds the implicit layers that keep the drivers from starting, and disables them.
void leave_out_failing_layers(const StartVulkan& start, const std::vector<ImplicitLayer>& layers,
                              const std::vector<std::string>& manifests, Drivers& drivers) {
    if (layers.empty()) return;
    std::vector<Trial> trials{{.manifests = manifests, .seconds = time_limit_awake}}; // first all layers
    for (const ImplicitLayer& each : layers) {                                        // then each alone
        trials.push_back(trials.front());
        for (const ImplicitLayer& other : layers)
            if (&other != &each) trials.back().without.push_back(other);
    }
    const std::vector<std::string> reasons = try_all(start, trials);
    if (reasons.front().empty()) return;
    const bool together = std::all_of(reasons.begin() + 1, reasons.end(), std::mem_fn(&std::string::empty));
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string& reason = together ? reasons.front() : reasons[i + 1];
        if (reason.empty()) continue;
        disable({layers[i]});
        drivers.left_out.push_back({fmt::format("{} ({})", layers[i].name, layers[i].manifest),
                                    fmt::format("Vulkan does not start with this layer: {}", reason)});
    }
}

/// Whether all drivers fail, and alike: then something that they share is at fault.
bool fail_alike(const std::vector<std::string>& reasons) {
    return reasons.size() > 1 && !reasons.front().empty() && reasons.front() != no_device &&
           std::all_of(reasons.begin(), reasons.end(),
                       [&](const std::string& each) { return each == reasons.front(); });
}

/// Advice where layers that the user has named may be at fault.
std::string without_named_layers() {
    const char* const named = std::getenv("VK_INSTANCE_LAYERS");
    if (named == nullptr || *named == 0) return "";
    return fmt::format("; try without the layers in VK_INSTANCE_LAYERS ({})", named);
}

} // namespace

std::vector<std::string> manifests_in(const std::string& log) {
    std::vector<std::string> found;
    bool listing = false;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = std::min(line.find("DRIVER:"), line.find("LAYER:"));
        if (colon == line.npos) continue;
        const std::size_t text = line.find_first_not_of(' ', line.find(':', colon) + 1);
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
    const DriverCall trying(keep_text("vulkan"), "trying its drivers");
    Drivers drivers;
    const std::string all_together = try_one(start, {});
    if (all_together.empty()) return drivers;
    const auto leave_out = [&](const std::string& manifest, const std::string& reason) {
        drivers.left_out.push_back(
            {manifest, fmt::format("Vulkan does not start with its driver: {}", reason)});
    };
    // A layer that fails must not be held against the drivers.
    const std::vector<std::string> layer_manifests = find_manifests(start, "layer");
    const std::vector<ImplicitLayer> layers = implicit_layers(layer_manifests);
    std::vector<Trial> alone;
    for (const std::string& manifest : find_manifests(start, "driver")) alone.push_back({{manifest}, layers});
    const std::vector<std::string> reasons = try_all(start, alone);
    if (fail_alike(reasons)) {
        drivers.failure = fmt::format("Vulkan does not start with any of its {} drivers: {}{}",
                                      reasons.size(), reasons.front(), without_named_layers());
        return drivers;
    }
    std::vector<std::string> working, idle;
    for (std::size_t i = 0; i < alone.size(); ++i)
        if (const std::string& manifest = alone[i].manifests.front(); reasons[i].empty())
            working.push_back(manifest);
        else if (reasons[i] == no_device)
            idle.push_back(manifest);
        else
            leave_out(manifest, reasons.size() > 1 ? reasons[i] : reasons[i] + without_named_layers());

    if (!working.empty()) {
        // Now tries them together. A driver that cannot list its devices seems harmless alone, but may hide
        // the others' devices.
        std::vector<std::string> rest = std::exchange(working, {});
        rest.insert(rest.end(), idle.begin(), idle.end());
        for (const std::string& manifest : rest) {
            working.push_back(manifest);
            if (const std::string reason = try_one(start, {working, layers}); !reason.empty()) {
                working.pop_back();
                leave_out(manifest, reason);
            }
        }
        choose(working);
        leave_out_failing_layers(start, layers, working, drivers);
    } else if (!drivers.left_out.empty())
        drivers.failure = "no Vulkan driver that starts finds a device";
    else if (const auto unread = damaged(layer_manifests); alone.empty() && !unread.empty())
        drivers.failure =
            fmt::format("Vulkan does not start: {}; repair or remove a layer's damaged manifest: {}",
                        all_together, fmt::join(unread, ", "));
    else if (all_together != no_device) // no single driver is to blame, or the loader lists none
        drivers.failure = fmt::format("Vulkan does not start: {}; name the drivers to use in {}",
                                      all_together, chosen_drivers);
    return drivers;
}

} // namespace towers::vulkan
