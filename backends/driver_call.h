// What each thread is doing inside a driver, for whoever must tell why it does not return, or that it
// crashed.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace towers {

/// The text at an address that stays valid for ever, as a signal's handler needs it. Equal texts share one.
const char* keep_text(std::string_view text);

/// While it lives, the calling thread is inside a driver. One may begin within another.
class DriverCall {
public:
    /// `device`: as messages name it, from keep_text(). `doing`: a literal such as `opening the device`.
    DriverCall(const char* device, const char* doing);
    /// Says which function of the driver it is, a literal such as `vkCreateDevice`.
    explicit DriverCall(const char* function);
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
    ~DriverCall();

    /// Where a thread says what it does. All members may be read by any thread, and by a signal's handler.
    struct Place {
        std::atomic<int> thread = 0; ///< the system's number; 0: the place is free
        std::atomic<const char*> device = nullptr, doing = nullptr, function = nullptr; ///< null: nothing
        std::atomic<std::int64_t> since = 0; ///< of the outermost call, in nanoseconds of the monotonic clock
        std::atomic<bool> stopped = false;   ///< for ever, by stop_for_ever()
    };
    /// The calling thread's place; null if there are too many threads.
    static Place* place();

private:
    const char *device_ = nullptr, *doing_ = nullptr, *function_ = nullptr; ///< before this call
};

/// Stops the place's thread for ever, wherever it is: what it works on may soon be gone. Returns when it has
/// stopped, or soon if it is stuck in the kernel; then it stops when it comes back from there.
void stop_for_ever(DriverCall::Place& place);

/// Finds the place of this thread that is inside a driver; null: it is not. Signals' handlers may call it.
const DriverCall::Place* driver_call_of(int thread);
/// Finds the call that has lasted longest, of this device if one is named by its id, and if possible not of a
/// thread that was stopped for ever; null: no thread is inside a driver. Likewise.
const DriverCall::Place* longest_driver_call(std::string_view id = {});
/// `vulkan:0` of `vulkan:0 (llvmpipe)`, the place's device
std::string_view id_of(const DriverCall::Place& place);
/// Since when the place's call lasts, in seconds. Likewise.
double seconds_in(const DriverCall::Place& place);

/// `vulkan:0 (llvmpipe): no answer from vkCreateDevice for 60 s while opening the device`
std::string no_answer_from(const DriverCall::Place& place, double seconds);

} // namespace towers
