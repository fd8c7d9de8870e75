// Devices whose drivers may hang. Nothing can end a call that hangs in a driver, so each is made on another
// thread, which the caller abandons after a while.
#pragma once

#include "backends/backend.h"
#include "backends/driver_call.h"
#include "backends/worker.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>

namespace towers {

/// A driver did not answer in time; less work at once does not help.
class NoAnswer : public DeviceLost {
    using DeviceLost::DeviceLost;
};

/// How long a driver may still take once the user wants to end the program.
constexpr double seconds_at_the_end = 3;

/// While one lives, others notice if the calling thread hangs, so it makes calls to devices itself: handing
/// them to another thread would cost each step some microseconds.
class Attended {
public:
    Attended() { ++depth_; }
    Attended(const Attended&) = delete;
    Attended& operator=(const Attended&) = delete;
    ~Attended() { --depth_; }
    static bool here() { return depth_ > 0; }

private:
    static inline thread_local unsigned depth_ = 0;
};

/// A thread that makes one caller's calls to one device or backend.
class DriverThread {
public:
    /// `options`: for `timeout`, which is not 0, and `stop`.
    explicit DriverThread(const OpenOptions& options) : timeout_(options.timeout), stop_(options.stop) {}
    DriverThread(const DriverThread&) = delete;
    DriverThread& operator=(const DriverThread&) = delete;
    ~DriverThread();

    enum class Takes { moments, long_if_it_compiles_or_copies };
    /// Makes the call, which throws what `work` throws. After a few seconds tells the user what takes long.
    /// Abandons the thread after the timeout, or ten timeouts, or seconds after `stop` has become true, and
    /// throws NoAnswer: the thread is stopped then and never returns from `work`. `device`: its name in
    /// messages.
    void call(const std::string& device, const char* doing, Takes takes, const std::function<void()>& work);
    /// Whether it was abandoned. Then nothing may touch what its calls have touched.
    bool hangs() const { return !failure_.empty(); }
    /// The message of the NoAnswer; empty if the thread does not hang.
    const std::string& failure() const { return failure_; }

private:
    struct Calls {
        std::atomic<DriverCall::Place*> place = nullptr; ///< null until the first call
        Worker worker;
    };
    [[noreturn]] void abandon(const std::string& what);

    double timeout_;
    const std::atomic<bool>* stop_;
    std::string failure_;
    std::unique_ptr<Calls> calls_ = std::make_unique<Calls>();
};

/// The device that `open` opens, with a DriverThread. Throws what `open` throws, and NoAnswer.
std::unique_ptr<Device> open_watched(const std::string& id, const OpenOptions& options,
                                     const std::function<std::unique_ptr<Device>()>& open);

/// Keeps for ever what a thread that hangs in a driver works on, where a tool that looks for leaks sees it.
void keep_for_ever(std::shared_ptr<void> object);
/// Whether something is kept so. Then the program must end without the usual clean-up.
bool any_driver_hangs();

} // namespace towers
