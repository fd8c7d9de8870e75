// The Vulkan loader, its instance and the physical devices that can run the kernels.
#pragma once

#include "backends/vulkan/headers.h"

#include "backends/backend.h"
#include "backends/vulkan/drivers.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace towers::vulkan {

/// Why Vulkan cannot be used here, in words for the user.
class Absent : public DeviceError {
    using DeviceError::DeviceError;
};

/// A driver fails, though it should not.
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
    /// The others, and what each one lacks.
    const std::vector<Backend::LeftOut>& left_out() const { return left_out_; }

    /// The instance of this process; made again only when nobody holds the last one. Starts no driver that
    /// drivers() leaves out.
    static std::shared_ptr<const Instance> shared(bool validate);
    /// Which drivers this process does without.
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

/// Where each Queue is on a device of Instance::devices(). Copies go to a family that does nothing else,
/// which is a card's DMA engines, so that they take no time from the kernels; else to another family that
/// computes, but draws nothing; else to further queues of compute_family(). Where queues are too few, several
/// share one.
std::array<QueuePlace, queue_count> queue_places(const vk::raii::PhysicalDevice& device);

/// Creates a device with all queues of queue_places() and every feature that the kernels need. `next` and
/// `extensions` add to them.
vk::raii::Device create_device(const vk::raii::PhysicalDevice& device, const void* next = nullptr,
                               const std::vector<const char*>& extensions = {});

/// Whether compute shaders may use these subgroup operations.
bool has_subgroups(const vk::raii::PhysicalDevice& device, vk::SubgroupFeatureFlags operations);

DeviceInfo describe(const vk::raii::PhysicalDevice& device, unsigned index);

} // namespace towers::vulkan
