// Chooses the devices of a run.
#pragma once

#include "backends/backend.h"
#include "engine/shares/device_record.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// The devices of a run that names none. `devices` lists those of the preferred backend first. Takes every
/// discrete GPU, else one integrated GPU, else the CPU. Uses a card that several backends show once, through
/// the first.
std::vector<std::string> default_towers(std::span<const DeviceInfo> devices);

/// The devices of a run that names this backend: all of it. Uses a card that two drivers show once, through
/// the first.
std::vector<std::string> backend_towers(std::span<const DeviceInfo> devices, const std::string& backend);

/// The ids in a list such as `vulkan:0,vulkan:0,cpu`, without surrounding blanks; the devices need not exist.
/// No ids for "".
std::vector<std::string> split_towers(const std::string& list);

/// What list_devices() says. Asked only where something needs it: drivers that fail take long.
using ListDevices = std::function<std::span<const Backend::Listing>()>;

/// Whether this choice takes nothing but the processor, and so no driver.
bool is_cpu_only(const std::string& backend, const std::string& towers);

/// The towers' device ids: those listed in `towers`, such as `vulkan:0,vulkan:0,cpu`, if it is not empty;
/// else backend_towers(), if `backend` is not empty; else default_towers(). Throws UsageError if both are
/// given, or a device or backend does not exist. Warns of ids of the same card.
std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const ListDevices& list);
std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options);

/// Where the devices of an earlier start's towers are now.
struct FoundAgain {
    std::vector<std::string> ids; ///< as find_again() says
    std::string missing;          ///< for the user: those that are not there, and what is; empty: all are
};
FoundAgain find_devices(std::span<const DeviceRecord> before, const ListDevices& list);
/// The same where this is what list_devices() says.
FoundAgain find_devices(std::span<const DeviceRecord> before, std::span<const Backend::Listing> listings);

} // namespace towers
