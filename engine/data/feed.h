// Data sets whose images stay on devices.
#pragma once

#include "backends/device.h"
#include "engine/data/example.h"
#include "engine/data/source.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// Brings every image to a device, into the slot of its record's number. Throws DeviceError, and InputError
/// when the data cannot be read.
void load_images(const DataSource& source, Device& device, const Buffer& records);

/// Examples of images that load_images() has brought to devices.
class ResidentFeed {
public:
    explicit ResidentFeed(const DataSource& source)
        : labels_(source.labels().begin(), source.labels().end()) {}

    std::size_t slots() const { return labels_.size(); }
    /// Sets slot and label of each example.
    void bring(std::span<Example> examples) const;

private:
    std::vector<std::uint32_t> labels_;
};

} // namespace towers
