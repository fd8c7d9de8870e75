// Keeps drivers that fail or crash out of this process. The loader starts all installed drivers at once: if
// one fails there, the loader may give up on all, and if one crashes, so does the program.
#pragma once

#include "backends/backend.h"

#include <functional>
#include <string>
#include <vector>

namespace towers::vulkan {

struct Drivers {
    std::vector<Backend::LeftOut> left_out; ///< the failing ones, by the path of the loader's manifest
    std::string failure;                    ///< why Vulkan must not be started at all; empty: it works
};

/// Starts Vulkan as this program uses it. Returns whether there is a device; throws if a driver fails.
using StartVulkan = std::function<bool()>;

/// Tries `start` in a process of its own. If there is no device, finds the drivers with which that fails and
/// hides them from this process's loader. Call before Vulkan's first use, as it forks and sets a variable of
/// the environment, best while there are no other threads.
Drivers leave_out_failing_drivers(const StartVulkan& start);

/// The manifests of all drivers, as the loader lists them with VK_LOADER_DEBUG=driver.
std::vector<std::string> manifests_in(const std::string& log);

} // namespace towers::vulkan
