#include "engine/shares/selection.h"

#include "backends/error.h"
#include "engine/files/text.h"
#include "engine/split.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace towers {
namespace {

bool belongs_to(const DeviceInfo& device, const std::string& backend) {
    return device.id == backend || device.id.starts_with(backend + ":");
}

/// The wanted devices that a run may take without their names, and of those that show one card the first.
template<class Wanted>
std::vector<std::string> take(std::span<const DeviceInfo> devices, Wanted&& wanted) {
    std::vector<std::string> ids;
    std::vector<DeviceInfo> taken;
    for (const DeviceInfo& device : devices) {
        if (!wanted(device) || !device.withheld.empty()) continue;
        if (std::ranges::any_of(taken, [&](const DeviceInfo& each) { return same_card(each, device); }))
            continue;
        taken.push_back(device);
        ids.push_back(device.id);
    }
    return ids;
}

struct Known {
    std::vector<DeviceInfo> devices;
    std::vector<std::pair<std::string, std::string>> absent; ///< backend, and why it or a card is absent
    std::vector<std::string> left_out;                       ///< cards and drivers, with the reason

    std::string all() const { return fmt::format("this machine has {}", listed(devices, &DeviceInfo::id)); }
};

Known all_of(std::span<const Backend::Listing> listings) {
    Known known;
    for (std::size_t i = 0; i < listings.size(); ++i) {
        const Backend* const backend = all_backends()[i];
        const Backend::Listing& listing = listings[i];
        known.devices.insert(known.devices.end(), listing.devices.begin(), listing.devices.end());
        for (const Backend::LeftOut& device : listing.left_out)
            known.left_out.push_back(fmt::format("{}: {}", backend->name(), device.text()));
        if (std::string why = listing.why_absent(); !why.empty())
            known.absent.emplace_back(backend->name(), std::move(why));
    }
    return known;
}

/// A sentence about withheld devices of a backend, or of all backends; empty if there are none.
std::string left_alone(const Known& known, const std::string& backend) {
    std::vector<std::string> ids;
    std::string reason;
    for (const DeviceInfo& device : known.devices)
        if (!device.withheld.empty() && (backend.empty() || belongs_to(device, backend))) {
            ids.push_back(fmt::format("{} ({})", device.id, device.name));
            reason = device.withheld;
        }
    if (ids.empty()) return "";
    return fmt::format("{} is only taken when --towers names it: {}", fmt::join(ids, ", "), reason);
}

/// Tells a user who names a card through two drivers.
void warn_of_same_cards(const Known& known, const std::vector<std::string>& chosen) {
    const auto is_chosen = [&](const DeviceInfo& device) {
        return std::ranges::find(chosen, device.id) != chosen.end();
    };
    for (auto device = known.devices.begin(); device != known.devices.end(); ++device)
        for (auto earlier = known.devices.begin(); earlier != device; ++earlier)
            if (same_card(*earlier, *device) && is_chosen(*earlier) && is_chosen(*device))
                spdlog::warn("{} is the same card as {} ({}): they share its memory and its time", device->id,
                             earlier->id, earlier->name);
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
        return take(devices, [&](const DeviceInfo& device) { return device.kind == kind; });
    };
    if (auto discrete = of_kind(DeviceKind::discrete_gpu); !discrete.empty()) return discrete;
    if (const auto integrated = of_kind(DeviceKind::integrated_gpu); !integrated.empty())
        return {integrated[0]};
    return {"cpu"};
}

std::vector<std::string> backend_towers(std::span<const DeviceInfo> devices, const std::string& backend) {
    return take(devices, [&](const DeviceInfo& device) { return belongs_to(device, backend); });
}

std::vector<std::string> split_towers(const std::string& list) {
    if (list.empty()) return {};
    return split(list, ',');
}

bool is_cpu_only(const std::string& backend, const std::string& towers) {
    const std::vector<std::string> ids = split_towers(towers);
    return ids.empty() ? backend == "cpu"
                       : std::ranges::all_of(ids, [](const auto& id) { return id == "cpu"; });
}

std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options) {
    std::vector<Backend::Listing> listings;
    return select_towers(backend, towers, [&] { return std::span(listings = list_devices(options)); });
}

std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const ListDevices& list) {
    if (!towers.empty() && !backend.empty())
        throw UsageError("--towers and --backend both say which devices to use; give one of them");
    if (is_cpu_only(backend, towers)) return split_towers(towers.empty() ? backend : towers);
    const Known known = all_of(list());
    std::vector<std::string> chosen;
    if (!towers.empty()) {
        chosen = split_towers(towers);
        if (std::ranges::find(chosen, "") != chosen.end())
            throw UsageError(
                fmt::format("--towers '{}': a name is missing beside a comma; {}", towers, known.all()));
        for (const std::string& id : chosen)
            if (std::ranges::find(known.devices, id, &DeviceInfo::id) == known.devices.end())
                throw_unknown(known, id);
        warn_of_same_cards(known, chosen);
        return chosen;
    }
    chosen = backend.empty() ? default_towers(known.devices) : backend_towers(known.devices, backend);
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

FoundAgain find_devices(std::span<const DeviceRecord> before, const ListDevices& list) {
    const auto is_cpu = [](const DeviceRecord& was) { return was.id == "cpu"; };
    if (std::ranges::all_of(before, is_cpu)) return {std::vector<std::string>(before.size(), "cpu"), ""};
    return find_devices(before, list());
}

FoundAgain find_devices(std::span<const DeviceRecord> before, std::span<const Backend::Listing> listings) {
    const Known known = all_of(listings);
    FoundAgain found{find_again(before, known.devices), ""};
    for (std::size_t i = 0; i < before.size(); ++i) {
        const DeviceRecord& was = before[i];
        if (!found.ids[i].empty() || std::ranges::find(before.first(i), was) != before.begin() + i) continue;
        const std::string backend = was.id.substr(0, was.id.find(':'));
        std::string now = "is not there";
        for (const auto& [absent, reason] : known.absent)
            if (absent == backend) now += fmt::format(" ({}: {})", absent, reason);
        for (const DeviceInfo& device : known.devices)
            if (device.uuid == was.uuid && was.uuid != Uuid{} && !device.id.starts_with(backend + ":"))
                now += fmt::format(", but as {}", device.id);
        found.missing += fmt::format("tower_{} was on {} ({}), which {}; ", i, was.id, was.name, now);
    }
    if (!found.missing.empty())
        found.missing +=
            fmt::format("this machine has {}", listed(known.devices, [](const DeviceInfo& device) {
                            return fmt::format("{} ({})", device.id, device.name);
                        }));
    return found;
}

} // namespace towers
