// Choices of how launches run, as a JSON file.
#pragma once

#include "backends/device.h"
#include "backends/launch/choices.h"

#include <span>
#include <string>
#include <vector>

namespace towers {

/// The choices for a device, and what they were made for.
struct DeviceChoices {
    std::string backend, name, driver;
    std::string kernels; ///< kernels_version()
    Choices choices;
    Precision precision = Precision::fp32; ///< that the products were allowed
    unsigned rank = 0;                     ///< whose device it is; see docs/machines.md
};

/// Without choices yet.
DeviceChoices choices_for(const DeviceInfo& info, Precision precision);

/// Whether choices are for a device of this kind and this precision, with whatever driver and kernels.
bool is_for(const DeviceChoices& choices, const DeviceChoices& device);

std::string choices_to_json(std::span<const DeviceChoices> devices);

/// Throws InputError, which calls the text `source`, if it is damaged or something else.
std::vector<DeviceChoices> choices_from_json(const std::string& text, const std::string& source);

} // namespace towers
