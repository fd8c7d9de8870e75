// How a Vulkan layer gets the functions of the next layer or driver.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

namespace towers::test {

/// Finds this layer's link in the chain that vkCreateInstance or vkCreateDevice receives, and advances the
/// chain to the next layer's. `Link`: VkLayerInstanceCreateInfo or VkLayerDeviceCreateInfo, `type`: its
/// sType.
template<class Link>
auto* take_link(const void* chain, VkStructureType type) {
    auto* link = static_cast<Link*>(const_cast<void*>(chain));
    while (link->sType != type || link->function != VK_LAYER_LINK_INFO)
        link = static_cast<Link*>(const_cast<void*>(link->pNext));
    auto* const place = link->u.pLayerInfo;
    link->u.pLayerInfo = place->pNext;
    return place;
}

/// Creates the instance in the next layer or driver. Sets `next` to the function that finds the functions
/// there.
inline VkResult create_instance_below(const VkInstanceCreateInfo* info,
                                      const VkAllocationCallbacks* allocator, VkInstance* created,
                                      PFN_vkGetInstanceProcAddr& next) {
    next = take_link<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO)
               ->pfnNextGetInstanceProcAddr;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
    return create(info, allocator, created);
}

/// Tells the loader the layer's functions. `get_device_function`: null if the layer changes no device
/// commands.
inline VkResult negotiate(VkNegotiateLayerInterface* negotiated,
                          PFN_vkGetInstanceProcAddr get_instance_function,
                          PFN_vkGetDeviceProcAddr get_device_function) {
    negotiated->loaderLayerInterfaceVersion = 2;
    negotiated->pfnGetInstanceProcAddr = get_instance_function;
    negotiated->pfnGetDeviceProcAddr = get_device_function;
    negotiated->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}

} // namespace towers::test
