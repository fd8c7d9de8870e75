#include "engine/towers/patience.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// A rate, in floating-point operations per second, that every device exceeds, even beside other programs.
double least_rate(const DeviceInfo& device) {
    const bool is_host = device.kind == DeviceKind::cpu || device.kind == DeviceKind::software;
    return is_host ? 1e9 : 1e10;
}

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
    // Another program may slow down all steps, long ones by more seconds than short ones.
    constexpr double much_slower = 9; // times the expected time, beyond it
    return {expected, expected.known ? std::max(timeout_, much_slower * expected.seconds) : 10 * timeout_};
}

std::string no_answer(const DeviceInfo& device, const TimeLimit& limit) {
    if (!limit.expected.known)
        return fmt::format("{}: no answer for {}", device.id, in_seconds(limit.seconds()));
    return fmt::format("{}: no answer for {} more than a step should take", device.id,
                       in_seconds(limit.more));
}

} // namespace towers
