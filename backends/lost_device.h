// A device in place of one that was lost before its tower could take a step. So the tower is one that fails
// in its first step, and the others go on without it.
#pragma once

#include "backends/device.h"

#include <memory>

namespace towers {

/// Has memory only on the host, copies nothing, and fails as `cause` says instead of running launches.
std::unique_ptr<Device> make_lost_device(const DeviceInfo& info, const DeviceLost& cause);

} // namespace towers
