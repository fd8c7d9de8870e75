// Keeps drivers and implicit layers that fail or crash out of this process. The loader starts all of them
// together: if one fails, the loader may give up on all, and if one crashes, the program crashes too.
#pragma once

#include "backends/backend.h"

#include <functional>
#include <string>
#include <vector>

namespace towers::vulkan {

struct Drivers {
    std::vector<Backend::LeftOut> left_out; ///< the failing ones, with the path of the loader's manifest
    std::string failure;                    ///< why Vulkan must not be started at all; empty: it works
};

/// A function that starts Vulkan as this program uses it, returns whether there is a device, and throws if a
/// driver fails.
using StartVulkan = std::function<bool()>;

/// Tries `start` in a child process. If there is no device, finds the drivers and layers that fail and hides
/// them from this process's loader. Call it before Vulkan's first use, and preferably before other threads
/// start: it forks and sets an environment variable.
Drivers leave_out_failing_drivers(const StartVulkan& start);

/// The manifests of all drivers or layers, as the loader lists them with VK_LOADER_DEBUG=driver or layer.
std::vector<std::string> manifests_in(const std::string& log);

} // namespace towers::vulkan
