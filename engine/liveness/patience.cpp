#include "engine/liveness/patience.h"

#include "backends/driver_call.h"
#include "backends/watched_device.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// A rate, in floating-point operations per second, that every device exceeds, even beside other programs.
double least_rate(const DeviceInfo& device) {
    const bool is_host = device.kind == DeviceKind::cpu || device.kind == DeviceKind::software;
    return is_host ? 1e9 : 1e10;
}

/// Another program may slow down all steps, long ones by more seconds than short ones.
constexpr double much_slower = 9; // times the expected time, beyond it

std::string in_seconds(double seconds) {
    return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

} // namespace

ExpectedTime StepTime::expect(unsigned share, double flops, const DeviceInfo& device) const {
    if (seconds_ == 0) return {flops / least_rate(device), false};
    return {seconds_ * std::max(1.0, double(share) / share_), true};
}

void StepTime::observe(unsigned share, double seconds) {
    if (warm_) {
        seconds_ = share_ == share ? std::max(seconds, seconds_) : seconds;
        share_ = share;
    }
    warm_ = true;
}

TimeLimit Patience::limit(const ExpectedTime& expected) const {
    return {expected, expected.known ? std::max(timeout_, much_slower * expected.seconds) : 10 * timeout_};
}

double Patience::at_the_end(const TimeLimit& limit) {
    if (limit.saves) return limit.seconds();
    return limit.expected.known ? std::max(seconds_at_the_end, (1 + much_slower) * limit.expected.seconds)
                                : seconds_at_the_end;
}

std::string no_answer(const DeviceInfo& device, const TimeLimit& limit, bool stop_requested) {
    const DriverCall::Place* const place = longest_driver_call(device.id);
    const char* const function = place != nullptr ? place->function.load() : nullptr;
    const std::string silent = fmt::format("{}: no answer{}", device.id,
                                           function != nullptr ? fmt::format(" from {}", function) : "");
    if (stop_requested) return silent + " since the program was told to end";
    if (!limit.expected.known) return fmt::format("{} for {}", silent, in_seconds(limit.seconds()));
    return fmt::format("{} for {} more than a step should take", silent, in_seconds(limit.more));
}

} // namespace towers
