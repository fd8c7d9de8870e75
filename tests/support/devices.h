// The devices of this machine that tests run on.
#pragma once

#include "backends/backend.h"

#include <memory>
#include <string>
#include <vector>

namespace towers::test {

/// Vulkan under the validation layer.
OpenOptions open_options();

/// Ids of all devices present; an absent backend is reported once and skipped, a device that fails to open
/// fails the test that opens it.
const std::vector<std::string>& device_ids();

/// A device opened once for the whole test program.
Device& device(const std::string& id);

/// Before the program ends: drivers and layers are gone once static objects are destroyed.
void close_devices();

} // namespace towers::test
