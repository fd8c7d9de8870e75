// How a Vulkan layer gets the functions of the next layer or driver.
#pragma once

#include <map>
#include <string_view>
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

template<class Function>
PFN_vkVoidFunction plain(Function function) {
    return reinterpret_cast<PFN_vkVoidFunction>(function);
}

/// The functions that a layer changes, by name.
using Functions = std::map<std::string_view, PFN_vkVoidFunction>;

/// Null: the layer does not change it.
inline PFN_vkVoidFunction find(const Functions& functions, const char* name) {
    const auto found = functions.find(name);
    return found != functions.end() ? found->second : nullptr;
}

/// What a layer's vkGetDeviceProcAddr returns. `next_of`: finds what the layer knows of the layer below a
/// device, of which `function` finds the functions.
template<class NextOf>
PFN_vkVoidFunction find_for_device(const Functions& of_devices, VkDevice device, const char* name,
                                   NextOf&& next_of) {
    const PFN_vkVoidFunction own = find(of_devices, name);
    return own != nullptr ? own : next_of(device).function(device, name);
}

/// What a layer's vkGetInstanceProcAddr returns, which is asked for functions of both kinds. `next`: that of
/// the layer below; null while there is none.
inline PFN_vkVoidFunction find_for_instance(const Functions& of_instances, const Functions& of_devices,
                                            VkInstance instance, const char* name,
                                            PFN_vkGetInstanceProcAddr next) {
    for (const Functions* own : {&of_instances, &of_devices})
        if (const PFN_vkVoidFunction found = find(*own, name)) return found;
    return next != nullptr ? next(instance, name) : nullptr;
}

/// Tells the loader the layer's functions. `get_device_function`: null when it changes no device commands.
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
