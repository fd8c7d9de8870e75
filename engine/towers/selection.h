// Which devices a run uses.
#pragma once

#include "backends/backend.h"

#include <span>
#include <string>
#include <vector>

namespace towers {

/// The devices of a run that names none. `devices` lists the preferred backend's first. Takes every discrete
/// GPU, else one integrated GPU, else the CPU. Uses a card that several backends show once, through the
/// first.
std::vector<std::string> default_towers(std::span<const DeviceInfo> devices);

/// The ids in a list such as `vulkan:0,vulkan:0,cpu`, whether or not such devices exist and without blanks
/// around them; none for "".
std::vector<std::string> split_towers(const std::string& list);

/// The towers' device ids. `towers`, when not empty, is a list such as `vulkan:0,vulkan:0,cpu`; else
/// `backend`, when not empty, means all devices of that one; else default_towers(). Throws UsageError when
/// both are given, and when there is no such device or backend.
std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options);

} // namespace towers
