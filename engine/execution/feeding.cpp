#include "engine/execution/feeding.h"

#include "backends/backend.h"
#include "backends/error.h"
#include "engine/data/augmentation.h"
#include "engine/execution/micro_batching.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

namespace towers {
namespace {

/// Whether two devices have the same memory.
bool share_memory(const DeviceInfo& a, const DeviceInfo& b) {
    return a.id == b.id || (uses_host_memory(a.kind) && uses_host_memory(b.kind));
}

/// Of a device that fails its tower will tell, which also knows what to do then.
std::uint64_t free_memory(const Device& device) {
    try {
        return device.free_memory();
    } catch (const DeviceError&) {
        return Device::not_told;
    }
}

/// Whether so many bytes beside others on each device leave enough for steps.
bool fit(std::uint64_t bytes, std::uint64_t others, Devices devices) {
    return std::ranges::all_of(devices, [&](Device* device) {
        const DeviceInfo& info = device->info();
        const auto sharing = std::uint64_t(
            std::ranges::count_if(devices, [&](Device* other) { return share_memory(info, other->info()); }));
        return bytes <= info.largest_allocation && (bytes + others) * sharing <= free_memory(*device) / 2;
    });
}

} // namespace

Feeding parse_feeding(const std::string& text) {
    if (text == "auto") return Feeding::automatic;
    if (text == "resident") return Feeding::resident;
    if (text == "streamed") return Feeding::streamed;
    throw UsageError(fmt::format("--feed '{}': give auto, resident or streamed", text));
}

bool streams(Feeding feeding, const DataSource& data, Devices devices, std::uint64_t others) {
    const std::uint64_t bytes = data.image_bytes();
    if (feeding == Feeding::resident && bytes > most_record_bytes)
        throw UsageError(fmt::format("--feed resident: the training images have {} bytes, and a device can "
                                     "hold at most {}; give --feed streamed",
                                     bytes, most_record_bytes));
    return feeding == Feeding::streamed ||
           (feeding == Feeding::automatic && (bytes > most_record_bytes || !fit(bytes, others, devices)));
}

unsigned default_readers(Devices devices) {
    const unsigned processors = cpu_threads(0);
    const bool beside_cpu = std::ranges::any_of(devices, [](Device* device) {
        const DeviceKind kind = device->info().kind;
        return kind == DeviceKind::cpu || kind == DeviceKind::software;
    });
    return std::clamp(beside_cpu ? processors / 2 : processors - 1, 1u, 16u);
}

} // namespace towers
