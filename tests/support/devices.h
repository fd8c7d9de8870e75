// The devices on which tests run.
#pragma once

#include "backends/backend.h"
#include "backends/launch/shared_source.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace towers::test {

/// During its lifetime, limits the configurations of the launches that devices from open_options() record.
class LimitConfigs {
public:
    explicit LimitConfigs(const ConfigLimits& limits);
    LimitConfigs(const LimitConfigs&) = delete;
    LimitConfigs& operator=(const LimitConfigs&) = delete;
    ~LimitConfigs();

    static const ConfigLimits& now();

private:
    ConfigLimits before_;
};

/// Opens Vulkan under the validation layer and without cutting recordings, so that a missing barrier shows,
/// and the CPU with at most three threads, unless OMP_NUM_THREADS gives another number.
OpenOptions open_options();

/// The ids of all devices. Reports absent backends once. If a device fails to open, the test that opens it
/// fails.
const std::vector<std::string>& device_ids();

/// A device that is opened once for the whole test program.
Device& device(const std::string& id);

/// Opens a device, or takes one that an earlier test has closed: compiling its pipelines again would take
/// most of a test's time on software drivers.
std::unique_ptr<Device> reuse_device(std::string_view id, const OpenOptions& options);

/// Messages of the Vulkan validation layer that are expected; any other makes the test program fail.
void expect_validation_messages(unsigned count);
unsigned expected_validation_messages();

/// Closes the shared devices. Call it before the program ends: drivers and layers are unloaded before static
/// objects are destroyed.
void close_devices();

} // namespace towers::test
