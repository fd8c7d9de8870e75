#include "engine/towers/patience.h"

#include <algorithm>
#include <fmt/format.h>

namespace towers {
namespace {

/// Floating-point operations per second of convolutions and products that every device makes, even beside
/// other programs.
double least_rate(const DeviceInfo& device) {
    const bool is_host = device.kind == DeviceKind::cpu || device.kind == DeviceKind::software;
    return is_host ? 1e9 : 1e10;
}

std::string in_seconds(double seconds) {
    return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

} // namespace

Patience::Limit Patience::limit(std::span<const std::unique_ptr<Tower>> towers,
                                std::span<const std::size_t> active) const {
    Limit limit{.known = true};
    for (const std::size_t i : active) {
        const Known& known = known_[i];
        const Tower& tower = *towers[i];
        if (known.seconds > 0) {
            limit.expected += known.seconds * std::max(1.0, double(tower.share()) / known.share);
        } else {
            limit.expected += tower.flops() / least_rate(tower.info());
            limit.known = false;
        }
    }
    // Another program may slow all steps down, long ones by more seconds than short ones.
    constexpr double much_slower = 9; // times the expected time, beyond it
    limit.more = limit.known ? std::max(timeout_, much_slower * limit.expected) : first_timeout();
    return limit;
}

void Patience::observe(std::size_t tower, unsigned share, double seconds) {
    Known& known = known_[tower];
    if (known.warm) {
        if (known.share == share) seconds = std::max(seconds, known.seconds);
        known.seconds = seconds;
        known.share = share;
    }
    known.warm = true;
}

std::string no_answer(const DeviceInfo& device, const Patience::Limit& limit) {
    if (!limit.known) return fmt::format("{}: no answer for {}", device.id, in_seconds(limit.seconds()));
    return fmt::format("{}: no answer for {} more than a step should take", device.id,
                       in_seconds(limit.more));
}

} // namespace towers
