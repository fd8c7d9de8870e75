#include "backends/backend.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/vulkan/vulkan_backend.h"

#include <charconv>
#include <fmt/format.h>

namespace towers {

std::span<const Backend* const> all_backends() {
    static const Backend* const backends[] = {&cuda_backend(), &vulkan_backend(), &cpu_backend()};
    return backends;
}

unsigned validation_messages() { return vulkan_validation_messages(); }

namespace {

std::string known_devices(const OpenOptions& options) {
    std::string ids;
    for (const Backend* backend : all_backends())
        for (const DeviceInfo& device : backend->list(options).devices)
            ids += (ids.empty() ? "" : ", ") + device.id;
    return ids;
}

} // namespace

std::unique_ptr<Device> open_device(std::string_view id, const OpenOptions& options) {
    const std::size_t colon = id.find(':');
    const std::string_view name = id.substr(0, colon);
    unsigned index = 0;
    bool valid = colon == std::string_view::npos;
    if (!valid) {
        const char* const end = id.data() + id.size();
        const auto [rest, error] = std::from_chars(id.data() + colon + 1, end, index);
        valid = error == std::errc{} && rest == end;
    }
    for (const Backend* backend : all_backends()) {
        if (!valid || backend->name() != name) continue;
        const Backend::Listing listing = backend->list(options);
        if (index < listing.devices.size()) return backend->open(index, options);
        if (listing.devices.empty()) throw DeviceError(fmt::format("device '{}': {}", id, listing.absence));
    }
    throw DeviceError(
        fmt::format("device '{}': there is no such device; this machine has {}", id, known_devices(options)));
}

std::string_view name_of(DeviceKind kind) {
    switch (kind) {
    case DeviceKind::cpu:
        return "CPU";
    case DeviceKind::integrated_gpu:
        return "integrated GPU";
    case DeviceKind::discrete_gpu:
        return "discrete GPU";
    case DeviceKind::virtual_gpu:
        return "virtual GPU";
    case DeviceKind::software:
        return "software";
    }
    return "unknown";
}

} // namespace towers
