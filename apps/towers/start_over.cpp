#include "apps/towers/start_over.h"

#include "apps/towers/ending.h"
#include "apps/towers/starting.h"
#include "backends/driver_call.h"
#include "backends/unusable.h"
#include "engine/shares/selection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace towers {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool under_sanitizer = true;
#elif defined(__has_feature)
constexpr bool under_sanitizer = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool under_sanitizer = false;
#endif

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/// A text that a signal's handler can put together: it must not allocate memory.
template<std::size_t capacity>
class Line {
public:
    Line& operator<<(std::string_view text) {
        const std::size_t length = std::min(text.size(), capacity - 1 - length_);
        std::memcpy(text_.data() + length_, text.data(), length);
        length_ += length;
        text_[length_] = '\0';
        return *this;
    }
    bool has_room_for(std::size_t length) const { return length_ + length < capacity; }
    void clear() { text_[length_ = 0] = '\0'; }
    char* data() { return text_.data(); }
    std::string_view view() const { return {text_.data(), length_}; }

private:
    std::array<char, capacity> text_{};
    std::size_t length_ = 0;
};

// What the handlers read. All but `way_on` and `last_words` changes only while `ready` is false.
std::atomic<bool> ready = false;      ///< the program may start over
std::array<char, 16> own_name{};      ///< of this program's threads
std::vector<std::string> dispensable; ///< ids and backends that it may leave out
std::vector<char*> environment;       ///< for the new program; the first is `unusable`
bool little_memory = false;           ///< drivers crash where they are refused memory
Line<4096> unusable, way_on, last_words;

const char* name_of_signal(int signal) {
    switch (signal) {
    case SIGSEGV:
        return "Segmentation fault";
    case SIGBUS:
        return "Bus error";
    case SIGILL:
        return "Illegal instruction";
    case SIGFPE:
        return "Floating point exception";
    case SIGABRT:
        return "Aborted";
    case SIGINT:
        return "interrupted";
    default:
        return "terminated";
    }
}

/// The number without a point, at least 0.
void append(Line<4096>& line, std::uint64_t number) {
    std::array<char, 20> digits{};
    std::size_t first = digits.size();
    do digits[--first] = char('0' + number % 10);
    while ((number /= 10) > 0);
    line << std::string_view(digits.data() + first, digits.size() - first);
}

void append(Line<4096>& line, const DriverCall::Place& place) {
    const char* const doing = place.doing;
    const char* const function = place.function;
    line << "while " << (doing != nullptr ? doing : "working");
    if (function != nullptr) line << " (" << function << ")";
}

std::string_view label_of(const DriverCall::Place& place) {
    const char* const device = place.device;
    return device != nullptr ? device : "a driver";
}

void print_last_words() {
    last_words << "\n";
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, last_words.data(), last_words.view().size());
}

/// Returns if the program may not start over without this device.
void start_over(std::string_view id, std::string_view reason) {
    if (!ready.exchange(false) || std::ranges::find(dispensable, id) == dispensable.end()) return;
    if (!unusable.has_room_for(id.size() + reason.size() + 2)) return;
    unusable << "\n" << id << "\t" << reason;
    sigset_t none; // a handler's signal must not stay blocked in the new program
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    start_anew(environment.data());
}

/// Whether the calling thread was made by a driver, which names its threads, and not by this program.
bool is_drivers_thread() {
    std::array<char, 16> name{};
    return prctl(PR_GET_NAME, name.data()) == 0 && name != own_name;
}

void on_crash(int signal) {
    const DriverCall::Place* place = driver_call_of(gettid());
    if (place == nullptr && is_drivers_thread()) place = longest_driver_call();
    if (place == nullptr) { // a fault of this program's
        std::signal(signal, SIG_DFL);
        raise(signal);
        return;
    }
    static std::atomic<bool> first = true;
    while (!first.exchange(false)) pause(); // another thread's crash ends the program
    Line<4096> reason;
    const bool in_driver = place->function != nullptr || driver_call_of(gettid()) == nullptr;
    reason << (in_driver ? "its driver" : "the program") << " crashed (" << name_of_signal(signal) << ") ";
    append(reason, *place);
    start_over(id_of(*place), reason.view());
    last_words << "towers: " << label_of(*place) << ": " << reason.view();
    if (little_memory) last_words << "; this process may use little memory (ulimit -v), raise the limit";
    last_words << way_on.view();
    print_last_words();
    _exit(work_failed);
}

void on_end(int signal) {
    constexpr double hangs = 2; // seconds
    if (const DriverCall::Place* const place = longest_driver_call();
        place != nullptr && seconds_in(*place) > hangs) {
        last_words << "towers: " << name_of_signal(signal) << ": " << label_of(*place)
                   << " has not answered for ";
        append(last_words, std::uint64_t(seconds_in(*place)));
        last_words << " s ";
        append(last_words, *place);
        print_last_words();
    }
    std::signal(signal, SIG_DFL);
    raise(signal);
}

/// From now on the program may start over without one of these devices, or a backend that cannot be listed.
void may_leave_out(const std::vector<std::string>& devices) {
    ready = false;
    dispensable.clear();
    for (const Backend* const each : all_backends()) dispensable.emplace_back(each->name());
    dispensable.insert(dispensable.end(), devices.begin(), devices.end());
    std::erase(dispensable, "cpu"); // there would be nothing to begin with
    const char* const before = std::getenv(unusable_devices);
    unusable.clear();
    unusable << unusable_devices << "=" << (before != nullptr ? before : "");
    environment.assign({unusable.data()});
    const std::size_t name = std::strlen(unusable_devices);
    for (char** each = environ; *each != nullptr; ++each)
        if (std::strncmp(*each, unusable.data(), name + 1) != 0) environment.push_back(*each);
    environment.push_back(nullptr);
    ready = true;
}

void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction before {};
    // Ignored signals stay ignored.
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, nullptr);
}

} // namespace

void watch_for_crashes() {
    rlimit limit{};
    constexpr rlim_t little = rlim_t(1) << 30; // bytes
    little_memory = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < little;
    may_leave_out({});
    prctl(PR_GET_NAME, own_name.data());
    for (const int signal : {SIGINT, SIGTERM}) handle(signal, on_end, 0);
    if (!under_sanitizer) // which reports crashes itself
        for (const int signal : crashes) handle(signal, on_crash, SA_ONSTACK);
}

std::vector<std::string> choose_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options) {
    std::vector<Backend::Listing> listings;
    return choose_towers(backend, towers, [&] { return std::span(listings = list_devices(options)); });
}

std::vector<std::string> choose_towers(const std::string& backend, const std::string& towers,
                                       const ListDevices& list) {
    std::vector<std::string> ids = select_towers(backend, towers, list);
    may_leave_out(towers.empty() ? ids : std::vector<std::string>());
    return ids;
}

void work_begins(const std::string& way) {
    ready = false;
    way_on.clear();
    way_on << way;
}

void start_over_without(const DeviceError& failed) {
    // The user may ask for less, and would not want the processor in place of the only card.
    const auto other_card = [&](const std::string& id) {
        return id.find(':') != id.npos && id != failed.device;
    };
    if (dynamic_cast<const OutOfMemory*>(&failed) != nullptr && std::ranges::none_of(dispensable, other_card))
        return;
    std::string_view reason = failed.what();
    for (const std::string& lead : {failed.device + ": ", failed.device + " ("})
        if (reason.starts_with(lead)) reason.remove_prefix(reason.find(": ") + 2);
    start_over(failed.device, reason);
}

} // namespace towers
