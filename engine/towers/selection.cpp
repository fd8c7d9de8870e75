#include "engine/towers/selection.h"

#include "engine/error.h"
#include "engine/files/text.h"
#include "engine/split.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

struct Known {
    std::vector<DeviceInfo> devices;
    std::vector<std::pair<std::string, std::string>> absent; ///< backend, and why it or a card is absent
    std::vector<std::string> left_out;                       ///< cards and drivers, with the reason

    std::string all() const { return fmt::format("this machine has {}", listed(devices, &DeviceInfo::id)); }
};

Known list_all(const OpenOptions& options) {
    Known known;
    const std::vector<Backend::Listing> listings = list_devices(options);
    for (std::size_t i = 0; i < listings.size(); ++i) {
        const Backend* const backend = all_backends()[i];
        const Backend::Listing& listing = listings[i];
        known.devices.insert(known.devices.end(), listing.devices.begin(), listing.devices.end());
        std::vector<std::string> reasons;
        if (listing.devices.empty()) reasons.push_back(listing.absence);
        for (const Backend::LeftOut& device : listing.left_out) {
            reasons.push_back(fmt::format("{} is left out: {}", device.name, device.reason));
            known.left_out.push_back(fmt::format("{}: {}", backend->name(), reasons.back()));
        }
        if (!reasons.empty())
            known.absent.emplace_back(backend->name(), fmt::format("{}", fmt::join(reasons, "; ")));
    }
    return known;
}

/// A sentence about withheld devices of a backend, or of all backends; empty if there are none.
std::string left_alone(const Known& known, const std::string& backend) {
    std::vector<std::string> ids;
    std::string reason;
    for (const DeviceInfo& device : known.devices)
        if (!device.withheld.empty() && (backend.empty() || device.id.starts_with(backend + ":"))) {
            ids.push_back(fmt::format("{} ({})", device.id, device.name));
            reason = device.withheld;
        }
    if (ids.empty()) return "";
    return fmt::format("{} is only taken when --towers names it: {}", fmt::join(ids, ", "), reason);
}

/// Explains why there is no device with this name.
[[noreturn]] void throw_unknown(const Known& known, const std::string& name) {
    for (const auto& [backend, reason] : known.absent)
        if (name == backend || name.starts_with(backend + ":"))
            throw UsageError(fmt::format("device '{}': {}; {}", name, reason, known.all()));
    throw UsageError(fmt::format("device '{}': there is no such device; {}", name, known.all()));
}

} // namespace

std::vector<std::string> default_towers(std::span<const DeviceInfo> devices) {
    const auto of_kind = [&](DeviceKind kind) {
        std::vector<std::string> ids;
        for (auto device = devices.begin(); device != devices.end(); ++device)
            if (device->kind == kind && device->withheld.empty() &&
                std::none_of(devices.begin(), device,
                             [&](const DeviceInfo& earlier) { return same_card(earlier, *device); }))
                ids.push_back(device->id);
        return ids;
    };
    if (auto discrete = of_kind(DeviceKind::discrete_gpu); !discrete.empty()) return discrete;
    if (const auto integrated = of_kind(DeviceKind::integrated_gpu); !integrated.empty())
        return {integrated[0]};
    return {"cpu"};
}

std::vector<std::string> split_towers(const std::string& list) {
    if (list.empty()) return {};
    return split(list, ',');
}

std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options) {
    if (!towers.empty() && !backend.empty())
        throw UsageError("--towers and --backend both say which devices to use; give one of them");
    if (towers == "cpu" || (towers.empty() && backend == "cpu")) return {"cpu"}; // needs no driver
    const Known known = list_all(options);
    std::vector<std::string> chosen;
    if (!towers.empty()) {
        chosen = split_towers(towers);
        if (std::ranges::find(chosen, "") != chosen.end())
            throw UsageError(
                fmt::format("--towers '{}': a name is missing beside a comma; {}", towers, known.all()));
        for (const std::string& id : chosen)
            if (std::ranges::find(known.devices, id, &DeviceInfo::id) == known.devices.end())
                throw_unknown(known, id);
        return chosen;
    }
    if (backend.empty())
        chosen = default_towers(known.devices);
    else
        for (const DeviceInfo& device : known.devices)
            if (device.withheld.empty() && (device.id == backend || device.id.starts_with(backend + ":")))
                chosen.push_back(device.id);
    const std::string others = left_alone(known, backend);
    if (!chosen.empty()) {
        // If CUDA works, the user means its cards.
        const bool cuda = std::ranges::any_of(
            known.devices, [](const DeviceInfo& device) { return device.id.starts_with("cuda:"); });
        if (!others.empty() && !cuda) spdlog::warn("{}", others);
        // A user who did not name devices may miss one.
        for (const std::string& each : known.left_out)
            if (backend.empty() || each.starts_with(backend + ":")) spdlog::warn("{}", each);
        return chosen;
    }
    if (!others.empty() && !backend.empty())
        throw UsageError(fmt::format("--backend {}: {}", backend, others));
    for (const auto& [absent, reason] : known.absent)
        if (backend == absent)
            throw UsageError(fmt::format("--backend {}: {}; {}", backend, reason, known.all()));
    throw UsageError(fmt::format(
        "--backend '{}': there is no such backend; choose from {}", backend,
        listed(all_backends(), [](const auto& each) { return std::invoke(&Backend::name, each); })));
}

} // namespace towers
