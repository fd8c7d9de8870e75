// The Vulkan loader, its instance and the physical devices that can run the kernels.
#pragma once

#include "backends/vulkan/headers.h"

#include "backends/backend.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/drivers.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace towers::vulkan {

/// Vulkan cannot be used here; the message tells the user why.
class Absent : public DeviceError {
    using DeviceError::DeviceError;
};

/// A driver fails unexpectedly.
class DriverFailure : public Absent {
    using Absent::Absent;
};

class Instance {
public:
    /// Throws Absent when there is no loader, no device, or no validation layer when one is asked for, and
    /// DriverFailure.
    explicit Instance(bool validate);

    /// Devices with all that the kernels need, in the loader's order.
    const std::vector<vk::raii::PhysicalDevice>& devices() const { return devices_; }
    vk::Instance handle() const { return *instance_; }
    /// The other devices, and what each lacks.
    const std::vector<Backend::LeftOut>& left_out() const { return left_out_; }

    /// The instance of this process; a new one only if nobody holds the previous one. Starts no driver that
    /// drivers() leaves out.
    static std::shared_ptr<const Instance> shared(bool validate);
    /// The drivers that this process leaves out.
    static const Drivers& drivers();

private:
    vk::raii::Context context_;
    vk::raii::Instance instance_ = nullptr;
    vk::raii::DebugUtilsMessengerEXT messenger_ = nullptr;
    std::vector<vk::raii::PhysicalDevice> devices_;
    std::vector<Backend::LeftOut> left_out_;
};

bool computes(const vk::QueueFamilyProperties& family);

/// The first queue family that runs compute shaders; a device of Instance::devices() has one.
std::uint32_t compute_family(const vk::raii::PhysicalDevice& device);

struct QueuePlace {
    std::uint32_t family, index;
    bool operator==(const QueuePlace&) const = default;
};

/// The family and index of each Queue on a device of Instance::devices(). Copies use a family that only
/// copies, which is a card's DMA engines, so that they do not slow kernels down; else another family that
/// computes but does not draw; else further queues of compute_family(). If there are too few queues, several
/// Queues share one.
std::array<QueuePlace, queue_count> queue_places(const vk::raii::PhysicalDevice& device);

/// Creates a device with all queues of queue_places() and every feature that the kernels need, with such
/// matrices. `next` and `extensions` add to them.
vk::raii::Device create_device(const vk::raii::PhysicalDevice& device, const Matrices& matrices,
                               const void* next = nullptr, std::vector<const char*> extensions = {});

/// Whether compute shaders may use these subgroup operations.
bool has_subgroups(const vk::raii::PhysicalDevice& device, vk::SubgroupFeatureFlags operations);

/// What facts_of() needs to know of a device of Instance::devices()
Details details_of(const Instance& instance, unsigned index);

/// `details`: of the same device
DeviceInfo describe(const Instance& instance, unsigned index, const Details& details);

} // namespace towers::vulkan
