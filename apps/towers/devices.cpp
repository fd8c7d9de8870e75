#include "apps/towers/commands.h"
#include "apps/towers/common_flags.h"
#include "apps/towers/ranks.h"
#include "engine/shares/device_record.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

namespace towers {
namespace {

/// Whether copies wait for kernels. The CPU's device needs no copies.
bool has_turns(const DeviceInfo& device) { return device.kind != DeviceKind::cpu && device.queues == 1; }

std::vector<std::string> units_of(const DeviceInfo& device) {
    std::vector<std::string> names;
    for (const Precision each : device.units) names.emplace_back(name_of(each));
    return names;
}

std::string told_units_of(const DeviceInfo& device) {
    if (device.unused_units) return "; this program was built without kernels for its matrix units";
    return device.units.empty() ? "" : fmt::format("; units for {}", fmt::join(units_of(device), ", "));
}

int list_devices(const OpenOptions& options, bool json) {
    nlohmann::json all = nlohmann::json::array();
    nlohmann::json absent = nlohmann::json::object();
    nlohmann::json left_out = nlohmann::json::array();
    std::vector<DeviceInfo> listed;
    const std::string place = place_among_ranks();
    const std::vector<Backend::Listing> listings = list_devices(options);
    if (!json && !place.empty()) fmt::print("{}\n", place);
    const auto add_absent = [&](const std::string& what, const std::string& why) {
        absent[what] = why;
        if (!json) fmt::print("{:<10} absent: {}\n", what, why);
    };
    if (const std::string why = absence_of_ranks(); !why.empty()) add_absent("mpi", why);
    for (std::size_t i = 0; i < listings.size(); ++i) {
        const Backend::Listing& listing = listings[i];
        const std::string backend_name(all_backends()[i]->name());
        if (listing.devices.empty()) add_absent(backend_name, listing.absence);
        for (const DeviceInfo& device : listing.devices) {
            const auto same = std::find_if(listed.begin(), listed.end(), [&](const DeviceInfo& earlier) {
                return same_card(earlier, device);
            });
            const std::string same_as = same == listed.end() ? "" : same->id;
            listed.push_back(device);
            all.push_back({{"id", device.id},
                           {"name", device.name},
                           {"vendor", device.vendor},
                           {"driver", device.driver},
                           {"kind", name_of(device.kind)},
                           {"uuid", to_string(device.uuid)},
                           {"same_card_as", same_as},
                           {"withheld", device.withheld},
                           {"memory", device.memory},
                           {"queues", device.queues},
                           {"subgroup_size", device.subgroup_size},
                           {"units", units_of(device)},
                           {"unused_units", device.unused_units}});
            if (!json)
                fmt::print("{:<10} {}, {} ({}), {:.1f} GiB, {}{}{}{}{}\n", device.id, device.name,
                           name_of(device.kind), device.vendor, double(device.memory) / double(1 << 30),
                           device.driver, told_units_of(device),
                           has_turns(device) ? "; one queue: kernels and copies take turns" : "",
                           same_as.empty() ? "" : fmt::format("; the same card as {}", same_as),
                           device.withheld.empty()
                               ? ""
                               : fmt::format("; only taken when named: {}", device.withheld));
        }
        for (const Backend::LeftOut& device : listing.left_out) {
            left_out.push_back({{"backend", backend_name}, {"name", device.name}, {"reason", device.reason}});
            if (!json) fmt::print("{:<10} left out: {}: {}\n", backend_name, device.name, device.reason);
        }
    }
    if (json)
        // A driver's name may not be valid UTF-8.
        fmt::print(
            "{}\n",
            nlohmann::json{{"devices", all}, {"absent", absent}, {"left_out", left_out}, {"place", place}}
                .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
}

} // namespace

void add_devices(CLI::App& app, Action& chosen) {
    CLI::App* const command = app.add_subcommand("devices", "List every device of every backend");
    struct Flags {
        bool json = false;
        OpenOptions open;
    };
    const auto flags = std::make_shared<Flags>();
    command->add_flag("--json", flags->json, "Print the list as JSON");
    add_device_flags(*command, flags->open);
    command->callback([flags, &chosen] {
        chosen = [flags] {
            check_threads(0);
            return list_devices(flags->open, flags->json);
        };
    });
}

} // namespace towers
