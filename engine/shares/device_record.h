// What a run keeps of its towers' devices, so that it finds them again after they have changed places.
#pragma once

#include "backends/device.h"

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace towers {

using Uuid = decltype(DeviceInfo::uuid);

struct DeviceRecord {
    std::string id;   ///< at that start
    std::string name; ///< DeviceInfo's, as UTF-8
    Uuid uuid{};      ///< DeviceInfo's; zero: none, or not recorded by an early version

    bool operator==(const DeviceRecord&) const = default;
};

DeviceRecord record_of(const DeviceInfo& info);

std::vector<std::string> ids_of(std::span<const DeviceRecord> devices);

/// In hexadecimal digits.
std::string to_string(const Uuid& uuid);

/// An object with `device`, `name` and `uuid`. Reading throws nlohmann::json::exception or InputError if it
/// is damaged.
void to_json(nlohmann::json& json, const DeviceRecord& record);
void from_json(const nlohmann::json& json, DeviceRecord& record);

/// The ids that the recorded devices have among `devices` now; "" for one that is not there. Towers with one
/// id have one device, and those with two have two.
///
/// A device stays with its backend. Most surely it is one with the same name and UUID. But UUIDs of many
/// drivers tell the slot and not the card, and another machine has other cards of the same name; so the name
/// decides before the UUID, and the same UUID, or without UUIDs the same id, is a device that its driver
/// calls otherwise now only if one name has the other's words. Last comes the name without what drivers add
/// in brackets, such as their version. Of equal candidates a device takes the one in its place. It takes a
/// withheld one only if that is certainly itself.
std::vector<std::string> find_again(std::span<const DeviceRecord> before,
                                    std::span<const DeviceInfo> devices);

} // namespace towers
