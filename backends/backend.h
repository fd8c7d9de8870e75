// The backends that this program was built with, and how to open their devices.
#pragma once

#include "backends/device.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

struct SharingLimits;

struct OpenOptions {
    unsigned threads = 0;  ///< of a CPU device; 0: OMP_NUM_THREADS, else one per processor within the quota
    bool validate = false; ///< run under the Vulkan validation layer; each message is an error
    bool overrides = true; ///< use better kernels for a Vulkan driver, if any, and not just the shared text
    /// For tests: the device looks there each time that it records; null: no limits.
    const SharingLimits* limits = nullptr;
    /// For tests, false: Vulkan submits a recording as a whole from the first time on, as one of training
    /// whose times are known, and does not measure it.
    bool measure = true;
};

/// A way to run kernels.
class Backend {
public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;

    /// A device that lacks what the kernels need.
    struct LeftOut {
        std::string name, reason;
        std::array<std::uint8_t, 16> uuid{}; ///< see DeviceInfo
    };
    struct Listing {
        std::vector<DeviceInfo> devices;
        std::string absence = {}; ///< why there are no devices
        std::vector<LeftOut> left_out = {};
    };
    virtual Listing list(const OpenOptions& options) const = 0;

    /// Finds out in a child process which drivers may be started in this one. Before any other driver has
    /// been started here: it forks, and what a driver such as CUDA's has begun is of no use to a child.
    virtual void try_drivers() const {}

    /// Opens the backend's `index`-th device. Throws DeviceError.
    virtual std::unique_ptr<Device> open(unsigned index, const OpenOptions& options) const = 0;
};

/// Every backend built in, the preferred one first.
std::span<const Backend* const> all_backends();

/// What each of the backends has, in their order. Tries drivers first, and sets DeviceInfo::withheld.
std::vector<Backend::Listing> list_devices(const OpenOptions& options,
                                           std::span<const Backend* const> backends = all_backends());

/// Opens a device by its id: `cpu`, `vulkan:0`. Throws DeviceError when there is no such device. Tries
/// drivers first, except for the CPU, which has none.
std::unique_ptr<Device> open_device(std::string_view id, const OpenOptions& options);
/// Likewise, of these backends.
std::unique_ptr<Device> open_device_of(std::span<const Backend* const> backends, std::string_view id,
                                       const OpenOptions& options);

/// For people to read: `discrete GPU`.
std::string_view name_of(DeviceKind kind);

constexpr unsigned most_cpu_threads = 1024;

/// How many threads a CPU device uses when asked for `wanted`, which means what OpenOptions::threads means:
/// fewer where OpenMP limits them (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS).
unsigned cpu_threads(unsigned wanted);

/// How many messages the validation layer has sent in this process.
unsigned validation_messages();

} // namespace towers
