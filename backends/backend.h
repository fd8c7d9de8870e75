// The backends that this program was built with, and how to open their devices.
#pragma once

#include "backends/device.h"
#include "backends/precision.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Which of a backend's variants (backends/launch/variants.h) a device uses. Tests run each of them.
enum class Sources {
    best,         ///< those for this kind of device
    cards,        ///< those for cards, on a software driver too
    nvidia_cards, ///< those for NVIDIA's cards, likewise
    shared,       ///< only the shared source of each kernel
};

struct OpenOptions {
    unsigned threads = 0; ///< of a CPU device; 0: OMP_NUM_THREADS, else one per processor within the quota
    /// The seconds that a GPU's driver may take for a call, ten times as many where it may compile or copy;
    /// then the device counts as lost (backends/watched_device.h). 0: any time.
    double timeout = 0;
    /// Whether the user wants to end the program, which then waits only seconds for a driver; may be null.
    const std::atomic<bool>* stop = nullptr;
    bool validate = false;           ///< run under the Vulkan validation layer; each message is an error
    Sources sources = Sources::best; ///< of a GPU or Vulkan driver
    /// Convolutions multiply each pixel by each weight: no Winograd, whose sums of pixels and of weights
    /// round more.
    bool exact_products = false;
    /// What products may round their operands to.
    Precision precision = Precision::fp32;
    /// A CPU device rounds the operands of products, with or without units for them, and multiplies what
    /// it has no units for in float32: slow, but with the results of hardware that has them.
    bool round_operands = false;
    /// How to run launches, which the device reads at each recording instead of estimating; null: estimates
    /// alone. What the device does not have counts for nothing.
    const Choices* choices = nullptr;
    /// For tests: limits that the device reads at each recording.
    const ConfigLimits* limits = &no_limits;
    /// For tests: if false, Vulkan does not measure recordings and always submits them uncut.
    bool measure = true;
    /// For tests: the CPU's memory has guards (backends/cpu/host_memory.h).
    bool guarded = false;
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

        std::string text() const { return name + " is left out: " + reason; }
    };
    struct Listing {
        std::vector<DeviceInfo> devices;
        std::string absence = {}; ///< why there are no devices
        std::vector<LeftOut> left_out = {};

        /// Why devices are absent: all of them, or those that are left out; empty if none is.
        std::string why_absent() const;
    };
    virtual Listing list(const OpenOptions& options) const = 0;

    /// Finds out in a child process which drivers may be started in this one. Call it before any driver is
    /// started here: it forks, and a child cannot use a driver, such as CUDA's, that its parent has started.
    virtual void try_drivers() const {}

    /// Opens the backend's `index`-th device. Throws DeviceError.
    virtual std::unique_ptr<Device> open(unsigned index, const OpenOptions& options) const = 0;
};

/// Every backend built in, the preferred one first.
std::span<const Backend* const> all_backends();

/// The devices of each backend, in the backends' order. Tries drivers first, and sets DeviceInfo::withheld.
std::vector<Backend::Listing> list_devices(const OpenOptions& options,
                                           std::span<const Backend* const> backends = all_backends());

/// Opens a device by its id, such as `cpu` or `vulkan:0`. Throws DeviceError if it does not exist. Tries
/// drivers first, except for the CPU, which has none.
std::unique_ptr<Device> open_device(std::string_view id, const OpenOptions& options);
/// Opens the host's own processor, the device `cpu`.
std::unique_ptr<Device> open_host_device(const OpenOptions& options = {});
/// The same with only these backends.
std::unique_ptr<Device> open_device_of(std::span<const Backend* const> backends, std::string_view id,
                                       const OpenOptions& options);

/// For people to read: `discrete GPU`.
std::string_view name_of(DeviceKind kind);

constexpr unsigned most_cpu_threads = 1024;

/// How many threads a CPU device uses if asked for `wanted` (see OpenOptions::threads): fewer if OpenMP
/// limits them (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS).
unsigned cpu_threads(unsigned wanted);

/// The number of messages that the validation layer has sent in this process.
unsigned validation_messages();

} // namespace towers
