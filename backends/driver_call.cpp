#include "backends/driver_call.h"

#include <array>
#include <csignal>
#include <ctime>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

constexpr std::size_t most_threads = 1024;
std::array<DriverCall::Place, most_threads> places;

std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

bool is_inside(const DriverCall::Place& place) { return place.thread != 0 && place.doing != nullptr; }

/// A thread's place, from its first call to its end. A driver may overflow the thread's stack, so a signal's
/// handler gets one of its own.
class OwnPlace {
public:
    OwnPlace() {
        const int thread = gettid();
        for (DriverCall::Place& each : places) {
            int unused = 0;
            if (!each.thread.compare_exchange_strong(unused, thread)) continue;
            place = &each;
            break;
        }
        stack_t before{};
        if (sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
        stack_t own{};
        own.ss_sp = stack_.data();
        own.ss_size = stack_.size();
        uses_stack_ = sigaltstack(&own, nullptr) == 0;
    }
    OwnPlace(const OwnPlace&) = delete;
    OwnPlace& operator=(const OwnPlace&) = delete;
    ~OwnPlace() {
        if (place != nullptr) place->thread = 0;
        stack_t none{};
        none.ss_flags = SS_DISABLE;
        if (uses_stack_) sigaltstack(&none, nullptr);
    }

    DriverCall::Place* place = nullptr;

private:
    std::vector<char> stack_ = std::vector<char>(std::size_t(64) << 10);
    bool uses_stack_ = false;
};

} // namespace

const char* keep_text(std::string_view text) {
    static auto& kept =
        *new std::set<std::string, std::less<>>(); // not destroyed: threads may outlive main()
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const auto found = kept.find(text);
    return (found != kept.end() ? found : kept.emplace(text).first)->c_str();
}

DriverCall::Place* DriverCall::place() {
    thread_local const OwnPlace own;
    return own.place;
}

DriverCall::DriverCall(const char* device, const char* doing) {
    Place* const own = place();
    if (own == nullptr) return;
    device_ = own->device;
    doing_ = own->doing;
    function_ = own->function;
    if (doing_ == nullptr) own->since = now();
    own->device = device;
    own->doing = doing;
    own->function = nullptr;
}

DriverCall::DriverCall(const char* function) {
    Place* const own = place();
    if (own == nullptr) return;
    device_ = own->device;
    doing_ = own->doing;
    function_ = own->function;
    own->function = function;
}

DriverCall::~DriverCall() {
    Place* const own = place();
    if (own == nullptr) return;
    own->function = function_;
    own->doing = doing_;
    own->device = device_;
}

void stop_for_ever(DriverCall::Place& place) {
    const int signal = SIGRTMAX - 1; // which no library of ours uses
    struct sigaction action {};
    action.sa_handler = [](int) {
        if (DriverCall::Place* const own = DriverCall::place()) own->stopped = true;
        for (;;) pause();
    };
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
    if (tgkill(getpid(), place.thread, signal) != 0) return;
    for (int i = 0; i < 1000 && !place.stopped; ++i) usleep(1000);
}

const DriverCall::Place* driver_call_of(int thread) {
    for (const DriverCall::Place& each : places)
        if (each.thread == thread) return is_inside(each) ? &each : nullptr;
    return nullptr;
}

std::string_view id_of(const DriverCall::Place& place) {
    const char* const device = place.device;
    const std::string_view label = device != nullptr ? device : "";
    return label.substr(0, label.find(' '));
}

const DriverCall::Place* longest_driver_call(std::string_view id) {
    const DriverCall::Place* longest = nullptr;
    const auto comes_before = [](const DriverCall::Place& a, const DriverCall::Place& b) {
        return a.stopped != b.stopped ? b.stopped.load() : a.since < b.since;
    };
    for (const DriverCall::Place& each : places)
        if (is_inside(each) && (id.empty() || id_of(each) == id) &&
            (longest == nullptr || comes_before(each, *longest)))
            longest = &each;
    return longest;
}

double seconds_in(const DriverCall::Place& place) { return double(now() - place.since) * 1e-9; }

std::string no_answer_from(const DriverCall::Place& place, double seconds) {
    const char* const device = place.device;
    const char* const doing = place.doing;
    const char* const function = place.function;
    return fmt::format("{}: no answer{} for {:.3g} s while {}", device != nullptr ? device : "a driver",
                       function != nullptr ? fmt::format(" from {}", function) : "", seconds,
                       doing != nullptr ? doing : "working");
}

} // namespace towers
