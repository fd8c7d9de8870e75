// Which devices a run is to use.
#pragma once

#include "backends/backend.h"

#include <string>
#include <vector>

namespace towers {

/// The towers' device ids. `towers`, when not empty, is a list such as `vulkan:0,vulkan:0,cpu`; else
/// `backend`, when not empty, means all devices of that one; else every discrete GPU, else one integrated
/// GPU, else the CPU: a software Vulkan device only when asked for. Throws UsageError when there is no such
/// device or backend.
std::vector<std::string> select_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options);

} // namespace towers
