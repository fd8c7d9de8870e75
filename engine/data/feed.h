// What brings examples to a device.
#pragma once

#include "backends/device.h"
#include "engine/data/example.h"
#include "engine/data/source.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace towers {

/// Decides which slot of a device's Arena::records holds which record.
class Feed {
public:
    virtual ~Feed() = default;

    /// Images that Arena::records has room for.
    virtual std::size_t slots() const = 0;
    /// Brings to a device what stays there. Once for each device, before its first step. Throws DeviceError,
    /// and InputError when the data cannot be read.
    virtual void load(Device& device, const Buffer& records) = 0;
    /// Makes sure that the records of these examples are in their slots when the next step begins, and sets
    /// slot and label of each.
    virtual void bring(std::span<Example> examples) = 0;
};

/// Every record stays on the device, in the slot of its own number.
class ResidentFeed final : public Feed {
public:
    /// The source must be there for load(), but no longer.
    explicit ResidentFeed(const DataSource& source);

    std::size_t slots() const override { return labels_.size(); }
    void load(Device& device, const Buffer& records) override;
    void bring(std::span<Example> examples) override;

private:
    const DataSource& source_;
    std::vector<std::uint32_t> labels_;
};

} // namespace towers
