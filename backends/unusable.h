// Devices that this program has found unusable, told to the process that starts over without them.
#pragma once

#include <string>
#include <string_view>

namespace towers {

/// The environment's variable: lines of an id or a backend, a tab and the reason.
constexpr const char* unusable_devices = "TOWERS_UNUSABLE_DEVICES";

/// Why the device or backend was unusable; empty: nobody says so. `variable`: its value; null if it is not set.
std::string why_unusable(std::string_view id, const char* variable);

} // namespace towers
