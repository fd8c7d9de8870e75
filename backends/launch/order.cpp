#include "backends/launch/order.h"

#include <algorithm>
#include <utility>

namespace towers {
namespace {

bool must_keep_order(const Footprint& a, const Footprint& b) {
    if (!a.known || !b.known) return true;
    return std::ranges::any_of(a.bytes, [&](const Footprint::Bytes& one) {
        return std::ranges::any_of(b.bytes, [&](const Footprint::Bytes& other) {
            return (one.written || other.written) && one.begin < other.end && other.begin < one.end;
        });
    });
}

} // namespace

Footprint footprint_of(const Launch& launch) {
    Footprint footprint;
    const auto pointers = kernel_info(launch.kernel).pointers;
    for (std::size_t i = 0; i < pointers.size(); ++i) {
        const std::uint64_t begin = launch.parameters.pointer(i);
        if (begin == 0) continue;
        footprint.known = footprint.known && launch.extents[i] > 0;
        footprint.bytes.push_back({begin, begin + launch.extents[i], pointers[i] != Access::read});
    }
    return footprint;
}

Footprint footprint_of(const Copy& copy) {
    const auto bytes = [](const BufferSlice& slice, bool written) -> Footprint::Bytes {
        return {slice.address(), slice.address() + slice.bytes, written};
    };
    return {.bytes = {bytes(copy.source, false), bytes(copy.target, true)}};
}

std::vector<std::size_t> CommandOrder::add(Footprint footprint) {
    std::vector<std::size_t> direct;
    std::vector<bool> after(commands_.size(), false);
    for (std::size_t i = before_barrier_; i-- > 0;) { // the later ones first: they imply earlier ones
        const Placed& earlier = commands_[i];
        if (after[i] || !must_keep_order(earlier.footprint, footprint)) continue;
        direct.push_back(i);
        after[i] = true;
        for (std::size_t k = 0; k < earlier.after.size(); ++k)
            if (earlier.after[k]) after[k] = true;
    }
    commands_.push_back({std::move(footprint), std::move(after)});
    return direct;
}

} // namespace towers
