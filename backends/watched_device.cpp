#include "backends/watched_device.h"

#include "backends/wrapped_device.h"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <spdlog/spdlog.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace towers {
namespace {

constexpr double until_told = 10; // seconds
/// Short, so that time in which this program is stopped or the machine sleeps hardly counts.
constexpr double pause_length = 0.1;

struct {
    std::mutex mutex;
    std::vector<std::shared_ptr<void>>& objects = *new std::vector<std::shared_ptr<void>>();
} kept;

/// Lets malloc have a heap for this thread that need not grow while a driver compiles. glibc gives a thread
/// other than the main one its memory page by page, each with a system call: 4,500 for lavapipe's compiler.
/// Memory that it once had it uses again without.
void grow_heap() {
    constexpr std::size_t heap = std::size_t(16) << 20;
    constexpr std::size_t piece = std::size_t(120) << 10; // larger ones may lie outside
    std::vector<std::unique_ptr<std::byte[]>> pieces;
    while (pieces.size() < heap / piece) pieces.push_back(std::make_unique_for_overwrite<std::byte[]>(piece));
}

class WatchedDevice final : public WrappedDevice {
public:
    using Takes = DriverThread::Takes;

    WatchedDevice(std::unique_ptr<Device> device, std::unique_ptr<DriverThread> thread)
        : WrappedDevice(std::move(device)), name_(keep_text(fmt::format("{} ({})", info().id, info().name))),
          thread_(std::move(thread)) {}
    ~WatchedDevice() override {
        try {
            if (!thread_->hangs())
                thread_->call(name_, "closing the device", Takes::moments, [this] { release().reset(); });
        } catch (const DeviceLost& lost) {
            spdlog::warn("{}", lost.what());
        }
        if (auto theirs = release()) keep_for_ever(std::move(theirs));
    }

    std::uint64_t free_memory() const override {
        try {
            return answer("asking for free memory", Takes::moments,
                          [this] { return WrappedDevice::free_memory(); });
        } catch (DeviceError& error) {
            error.device = info().id;
            throw;
        }
    }

    void free(const std::function<void()>& destroy) override {
        if (thread_->hangs()) return; // its memory too is never freed
        try {
            answer("freeing memory", Takes::long_if_it_compiles_or_copies, [&] {
                WrappedDevice::do_finish();
                destroy();
            });
        } catch (const DeviceLost& lost) {
            spdlog::warn("{}", lost.what());
        }
    }

protected:
    std::unique_ptr<Allocation> do_allocate(std::size_t bytes, Memory memory) override {
        return answer("allocating memory", Takes::moments,
                      [&] { return WrappedDevice::do_allocate(bytes, memory); });
    }
    std::unique_ptr<RecordingState> do_record(std::span<const Command> commands,
                                              const Buffer* scratch) override {
        return answer("preparing kernels", Takes::long_if_it_compiles_or_copies,
                      [&] { return WrappedDevice::do_record(commands, scratch); });
    }
    void do_submit(const RecordingState& recording, Submission submission,
                   std::span<const Submission> after) override {
        answer("submitting", Takes::long_if_it_compiles_or_copies,
               [&] { WrappedDevice::do_submit(recording, submission, after); });
    }
    void do_wait(Submission submission) override {
        answer("running", Takes::long_if_it_compiles_or_copies, [&] { WrappedDevice::do_wait(submission); });
    }
    void do_finish() noexcept override {
        try {
            if (!thread_->hangs())
                answer("running", Takes::long_if_it_compiles_or_copies, [&] { WrappedDevice::do_finish(); });
        } catch (const DeviceLost&) { // told when it is used next
        }
    }
    std::vector<double> do_timestamps(const RecordingState& recording) const override {
        return answer("reading timestamps", Takes::moments,
                      [&] { return WrappedDevice::do_timestamps(recording); });
    }

private:
    template<class Work>
    auto answer(const char* doing, Takes takes, const Work& work) const -> decltype(work()) {
        if (thread_->hangs()) throw NoAnswer(thread_->failure());
        if (Attended::here()) {
            const DriverCall call(name_, doing);
            return work();
        }
        if constexpr (std::is_void_v<decltype(work())>) {
            thread_->call(name_, doing, takes, work);
        } else {
            std::optional<decltype(work())> result;
            thread_->call(name_, doing, takes, [&] { result.emplace(work()); });
            return std::move(*result);
        }
    }

    const char* name_;
    std::unique_ptr<DriverThread> thread_;
};

} // namespace

void keep_for_ever(std::shared_ptr<void> object) {
    const std::lock_guard lock(kept.mutex);
    kept.objects.push_back(std::move(object));
}

bool any_driver_hangs() {
    const std::lock_guard lock(kept.mutex);
    return !kept.objects.empty();
}

DriverThread::~DriverThread() {
    if (hangs()) keep_for_ever(std::move(calls_));
}

void DriverThread::abandon(const std::string& what) {
    if (DriverCall::Place* const place = calls_->place) stop_for_ever(*place);
    failure_ = what;
    throw NoAnswer(what);
}

void DriverThread::call(const std::string& device, const char* doing, Takes takes,
                        const std::function<void()>& work) {
    const char* const name = keep_text(device);
    const std::function<void()> task = [calls = calls_.get(), name, doing, &work] {
        if (calls->place == nullptr) grow_heap(); // the first call
        calls->place = DriverCall::place();
        const DriverCall call(name, doing);
        work();
    };
    calls_->worker.start(task);
    const double limit = takes == Takes::moments ? timeout_ : 10 * timeout_;
    const auto no_answer = [&](double seconds) {
        const DriverCall::Place* const place = calls_->place;
        return place != nullptr ? no_answer_from(*place, seconds)
                                : fmt::format("{}: no answer for {:.3g} s while {}", device, seconds, doing);
    };
    const auto takes_long = [&](double seconds) {
        const DriverCall::Place* const place = calls_->place;
        const char* const function = place != nullptr ? place->function.load() : nullptr;
        return fmt::format("{}: still {}{}, for {:.0f} s so far{}", device, doing,
                           function != nullptr ? fmt::format(" ({})", function) : "", seconds,
                           std::isfinite(limit) ? fmt::format("; it counts as lost after {:.3g} s", limit)
                                                : "");
    };
    double passed = 0, since_stop = 0;
    bool told = false;
    while (!calls_->worker.wait_for(std::chrono::duration<double>(pause_length))) {
        passed += pause_length;
        if (passed >= limit) abandon(no_answer(limit));
        if (stop_ != nullptr && *stop_ && (since_stop += pause_length) >= seconds_at_the_end)
            abandon(no_answer(passed) + ", and the program was told to end");
        if (passed >= until_told && !std::exchange(told, true)) spdlog::info("{}", takes_long(passed));
    }
    calls_->worker.get();
}

std::unique_ptr<Device> open_watched(const std::string& id, const OpenOptions& options,
                                     const std::function<std::unique_ptr<Device>()>& open) {
    auto thread = std::make_unique<DriverThread>(options);
    std::unique_ptr<Device> device;
    thread->call(id, "opening the device", DriverThread::Takes::moments, [&] { device = open(); });
    return std::make_unique<WatchedDevice>(std::move(device), std::move(thread));
}

} // namespace towers
