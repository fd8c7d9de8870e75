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

/// Hands everything on to another device: what a device that does something else derives from.
class WrappedDevice : public Device {
public:
    explicit WrappedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

    const DeviceInfo& info() const override { return device_->info(); }
    Buffer allocate(std::size_t bytes, Memory memory) override { return device_->allocate(bytes, memory); }
    Recording record(std::span<const Command> commands) override { return device_->record(commands); }
    Ticket submit(const Recording& recording) override { return device_->submit(recording); }
    void wait(Ticket ticket) override { device_->wait(ticket); }
    void finish() noexcept override { device_->finish(); }
    std::vector<double> timestamps(const Recording& recording) const override {
        return device_->timestamps(recording);
    }

protected:
    Device& base() { return *device_; }

private:
    std::unique_ptr<Device> device_;
};

/// Before the program ends: drivers and layers are gone once static objects are destroyed.
void close_devices();

} // namespace towers::test
