// What the parts of the layer share: the functions below it and the devices that it shows.
#pragma once

#include "tests/support/vulkan_layer.h"

#include <string>
#include <vector>

namespace towers::test {

/// The layer or driver below an instance or a device
struct Below {
    Functions next = {}; ///< its commands, of those in commands.inc
    std::vector<PFN_vkVoidFunction> calls =
        {}; ///< the same in that order, but this layer's own where it has one
    PFN_vkGetDeviceProcAddr function = nullptr; ///< a device's
    VkDevice created = VK_NULL_HANDLE;          ///< a device itself
    VkPhysicalDevice physical = VK_NULL_HANDLE; ///< a device's, as its driver knows it
    std::string name = {};                      ///< a device's
};

/// An object's, of any kind that a command begins with. It holds for as long as the object.
const Below& below_object(void* object);

template<class Handle>
const Below& below(Handle handle) {
    return below_object(reinterpret_cast<void*>(handle));
}

/// A command below this layer
#define TOWERS_NEXT(command, handle) reinterpret_cast<PFN_##command>(find(below(handle).next, #command))

/// A device that is shown twice has a second handle; the driver's own.
VkPhysicalDevice real(VkPhysicalDevice shown);
/// As the driver says it, and for a copy with an addition
std::string name_of(VkPhysicalDevice shown);

/// The commands that the devices' abilities change, and those that their memory changes
const Functions& abilities();
const Functions& memory();

} // namespace towers::test
