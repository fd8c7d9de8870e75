#include "backends/backend.h"

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/unusable.h"
#include "backends/visible_cards.h"
#include "backends/vulkan/vulkan_backend.h"
#include "backends/watched_device.h"

#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <map>

namespace towers {

std::span<const Backend* const> all_backends() {
    static const Backend* const backends[] = {&cuda_backend(), &vulkan_backend(), &cpu_backend()};
    return backends;
}

unsigned validation_messages() { return vulkan_validation_messages(); }

namespace {

void try_all_drivers(std::span<const Backend* const> backends) {
    for (const Backend* backend : backends) backend->try_drivers();
}

bool has_driver(const Backend& backend) { return backend.name() != "cpu"; }

/// Whether the backend's calls may hang, and the caller cares.
bool is_watched(const Backend& backend, const OpenOptions& options) {
    return has_driver(backend) && options.timeout > 0;
}

Backend::Listing list_in_time(const Backend& backend, const OpenOptions& options) {
    if (!is_watched(backend, options)) return backend.list(options);
    // One that has not answered once is not asked again: its thread may hold what the others wait for.
    static std::map<std::string_view, std::string> silent;
    if (const auto found = silent.find(backend.name()); found != silent.end())
        return {.devices = {}, .absence = found->second};
    if (const std::string reason = why_unusable(backend.name(), std::getenv(unusable_devices));
        !reason.empty())
        return {.devices = {}, .absence = reason};
    Backend::Listing listing;
    try {
        DriverThread(options).call(std::string(backend.name()), "listing its devices",
                                   DriverThread::Takes::moments, [&] { listing = backend.list(options); });
        return listing;
    } catch (const NoAnswer& error) {
        return {.devices = {}, .absence = silent[backend.name()] = error.what()};
    }
}

void leave_out_unusable(Backend::Listing& listing) {
    const auto reason_of = [](const DeviceInfo& device) {
        return why_unusable(device.id, std::getenv(unusable_devices));
    };
    const std::size_t listed = listing.devices.size();
    for (const DeviceInfo& device : listing.devices)
        if (std::string reason = reason_of(device); !reason.empty())
            listing.left_out.push_back(
                {fmt::format("{} ({})", device.id, device.name), std::move(reason), device.uuid});
    std::erase_if(listing.devices, [&](const DeviceInfo& device) { return !reason_of(device).empty(); });
    if (listing.devices.empty() && listed > 0) listing.absence = "none of its devices works";
}

std::string known_devices(const OpenOptions& options, std::span<const Backend* const> backends) {
    std::string ids;
    for (const Backend::Listing& listing : list_devices(options, backends))
        for (const DeviceInfo& device : listing.devices) ids += (ids.empty() ? "" : ", ") + device.id;
    return ids;
}

[[noreturn]] void throw_unknown(std::string_view id, std::span<const Backend* const> backends,
                                const OpenOptions& options) {
    throw DeviceError(fmt::format("device '{}': there is no such device; this machine has {}", id,
                                  known_devices(options, backends)));
}

} // namespace

std::string Backend::Listing::why_absent() const {
    std::string why = absence;
    for (const LeftOut& each : left_out) why += (why.empty() ? "" : "; ") + each.text();
    return why;
}

std::vector<Backend::Listing> list_devices(const OpenOptions& options,
                                           std::span<const Backend* const> backends) {
    try_all_drivers(backends);
    std::vector<Backend::Listing> listings;
    Backend::Listing cuda;
    for (const Backend* backend : backends) {
        listings.push_back(list_in_time(*backend, options));
        if (backend->name() == "cuda") cuda = listings.back();
    }
    const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
    for (Backend::Listing& listing : listings) {
        for (DeviceInfo& device : listing.devices) device.withheld = why_withheld(device, cuda, variable);
        leave_out_unusable(listing);
    }
    return listings;
}

std::unique_ptr<Device> open_device(std::string_view id, const OpenOptions& options) {
    return open_device_of(all_backends(), id, options);
}

std::unique_ptr<Device> open_host_device(const OpenOptions& options) { return open_device("cpu", options); }

std::unique_ptr<Device> open_device_of(std::span<const Backend* const> backends, std::string_view id,
                                       const OpenOptions& options) {
    const std::size_t colon = id.find(':');
    const std::string_view name = id.substr(0, colon);
    unsigned index = 0;
    bool valid = colon == std::string_view::npos;
    if (!valid) {
        const char* const end = id.data() + id.size();
        const auto [rest, error] = std::from_chars(id.data() + colon + 1, end, index);
        valid = error == std::errc{} && rest == end;
    }
    for (const Backend* backend : backends) {
        if (!valid || backend->name() != name) continue;
        if (has_driver(*backend)) try_all_drivers(backends);
        const auto open = [&] {
            const Backend::Listing listing = backend->list(options);
            if (listing.devices.empty())
                throw DeviceError(fmt::format("device '{}': {}", id, listing.why_absent()));
            if (index >= listing.devices.size()) throw_unknown(id, backends, options);
            if (!has_driver(*backend)) return backend->open(index, options);
            const DeviceInfo& device = listing.devices[index];
            const DriverCall opening(keep_text(fmt::format("{} ({})", device.id, device.name)),
                                     "opening the device");
            return backend->open(index, options);
        };
        try {
            return is_watched(*backend, options) ? open_watched(std::string(id), options, open) : open();
        } catch (const OutOfMemory& error) { // less work at once would not help
            DeviceError refused(error.what());
            refused.device = id;
            throw refused;
        } catch (DeviceError& error) {
            error.device = id;
            throw;
        }
    }
    throw_unknown(id, backends, options);
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
