// Devices that fail before a command's work has begun. If the program has chosen them itself, it starts over
// without them: an exec leaves behind whatever a driver has broken or keeps busy.
#pragma once

#include "engine/shares/selection.h"

#include <string>
#include <vector>

namespace towers {

/// From now on a driver that crashes ends the program with a line and `work_failed` and not with a signal;
/// SIGINT and SIGTERM end it as usual, with a line if a driver hangs.
void watch_for_crashes();

/// select_towers(). If the user names no device, the program may start over without one of them until
/// work_begins().
std::vector<std::string> choose_towers(const std::string& backend, const std::string& towers,
                                       const ListDevices& list);
std::vector<std::string> choose_towers(const std::string& backend, const std::string& towers,
                                       const OpenOptions& options);

/// From now on a device that fails ends the program. `way_on`: what a line about a crash says after it.
void work_begins(const std::string& way_on = "");

/// Starts over without the device that failed, if it may; else returns. It may not if the only card lacks
/// memory.
void start_over_without(const DeviceError& failed);

} // namespace towers
