#include "engine/trace/clocks.h"

#include <algorithm>
#include <cmath>

namespace towers {

ClockOffset::Bounds& ClockOffset::of(std::uint64_t step) {
    auto found = std::ranges::find(steps_, step, &Bounds::step);
    if (found == steps_.end()) {
        const auto place = std::ranges::upper_bound(steps_, step, {}, &Bounds::step);
        found = steps_.insert(place, {.step = step});
    }
    return *found;
}

void ClockOffset::begins(std::uint64_t step, double submitted, double begun) {
    Bounds& bounds = of(step);
    bounds.least = std::max(bounds.least, submitted - begun);
}

void ClockOffset::ends(std::uint64_t step, double ended, double known) {
    Bounds& bounds = of(step);
    bounds.most = std::min(bounds.most, known - ended);
}

void ClockOffset::forget_before(std::uint64_t step) {
    while (!steps_.empty() && steps_.front().step < step) steps_.pop_front();
}

ClockOffset::Bounds ClockOffset::all() const {
    Bounds all;
    for (const Bounds& each : steps_) {
        all.least = std::max(all.least, each.least);
        all.most = std::min(all.most, each.most);
    }
    return all;
}

double ClockOffset::seconds() const {
    const auto [step, least, most] = all();
    if (std::isfinite(least) && std::isfinite(most)) return (least + most) / 2;
    return std::isfinite(least) ? least : std::isfinite(most) ? most : 0;
}

double ClockOffset::uncertainty() const {
    const auto [step, least, most] = all();
    return std::abs(most - least) / 2;
}

} // namespace towers
