// A Vulkan layer between the program and the drivers. It removes abilities, so that tests can see devices
// that our machines lack. TOWERS_WEAK_DEVICE is part of a device's name, or empty for all devices.
// TOWERS_WEAK_ABILITY is an ability to remove, such as `maintenance4`, or a limit to lower, such as
// `maxBufferSize=1000`. With `subgroupSize=64` subgroups seem to be as wide unless a pipeline asks, and
// shuffles are gone, for the overrides for software drivers rely on that size. With `other vendors` the
// device appears as one of NVIDIA's cards. With `answers=FILE` every device hangs as soon as that file
// exists.
#include "tests/support/vulkan_layer.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

// The next layer's or driver's functions
PFN_vkGetInstanceProcAddr next = nullptr;
PFN_vkGetPhysicalDeviceProperties next_properties = nullptr;
PFN_vkGetPhysicalDeviceProperties2 next_properties2 = nullptr;
PFN_vkGetPhysicalDeviceFeatures2 next_features2 = nullptr;
PFN_vkGetPhysicalDeviceQueueFamilyProperties next_queues = nullptr;
PFN_vkCreateDevice next_create_device = nullptr;
std::mutex mutex;
std::map<VkDevice, PFN_vkGetDeviceProcAddr> devices; ///< with the function that finds its functions

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool lacks(std::string_view ability) { return environment("TOWERS_WEAK_ABILITY") == ability; }

template<class Number>
bool lessen(Number& number, const std::string& limit) {
    const std::string ability = environment("TOWERS_WEAK_ABILITY");
    if (!ability.starts_with(limit + "=")) return false;
    number = Number(std::strtoull(ability.c_str() + limit.size() + 1, nullptr, 10));
    return true;
}

bool is_weak(const VkPhysicalDeviceProperties& properties) {
    return std::strstr(properties.deviceName, environment("TOWERS_WEAK_DEVICE").c_str()) != nullptr;
}

void weaken(VkPhysicalDeviceProperties& properties) {
    if (lacks("other vendors")) {
        properties.vendorID = 0x10DE;
        properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
    if (lacks("apiVersion")) properties.apiVersion = VK_API_VERSION_1_2;
    lessen(properties.limits.maxComputeWorkGroupInvocations, "maxComputeWorkGroupInvocations");
    lessen(properties.limits.maxComputeWorkGroupSize[0], "maxComputeWorkGroupSize[0]");
    lessen(properties.limits.maxComputeSharedMemorySize, "maxComputeSharedMemorySize");
    lessen(properties.limits.maxPushConstantsSize, "maxPushConstantsSize");
}

void weaken_subgroups(VkShaderStageFlags& stages, VkSubgroupFeatureFlags& operations) {
    if (lacks("subgroups")) stages &= ~VkFlags(VK_SHADER_STAGE_COMPUTE_BIT);
    if (lacks("subgroup arithmetic")) operations &= ~VkFlags(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT);
}

void weaken(VkBaseOutStructure& structure) {
    switch (structure.sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES: {
        auto& subgroup = reinterpret_cast<VkPhysicalDeviceSubgroupProperties&>(structure);
        if (lessen(subgroup.subgroupSize, "subgroupSize"))
            subgroup.supportedOperations &= ~VkFlags(VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
        weaken_subgroups(subgroup.supportedStages, subgroup.supportedOperations);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES: {
        auto& all = reinterpret_cast<VkPhysicalDeviceVulkan11Properties&>(structure);
        weaken_subgroups(all.subgroupSupportedStages, all.subgroupSupportedOperations);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
        lessen(reinterpret_cast<VkPhysicalDeviceMaintenance3Properties&>(structure).maxMemoryAllocationSize,
               "maxMemoryAllocationSize");
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        lessen(reinterpret_cast<VkPhysicalDeviceMaintenance4Properties&>(structure).maxBufferSize,
               "maxBufferSize");
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
        auto& features = reinterpret_cast<VkPhysicalDeviceVulkan12Features&>(structure);
        if (lacks("bufferDeviceAddress")) features.bufferDeviceAddress = VK_FALSE;
        if (lacks("timelineSemaphore")) features.timelineSemaphore = VK_FALSE;
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
        auto& features = reinterpret_cast<VkPhysicalDeviceVulkan13Features&>(structure);
        if (lacks("computeFullSubgroups")) features.computeFullSubgroups = VK_FALSE;
        if (lacks("subgroupSizeControl")) features.subgroupSizeControl = VK_FALSE;
        if (lacks("synchronization2")) features.synchronization2 = VK_FALSE;
        if (lacks("maintenance4")) features.maintenance4 = VK_FALSE;
        break;
    }
    default:
        break;
    }
}

template<class Structure>
void weaken_chain(Structure& first) {
    for (auto* each = static_cast<VkBaseOutStructure*>(first.pNext); each != nullptr; each = each->pNext)
        weaken(*each);
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* properties) {
    next_properties(device, properties);
    if (is_weak(*properties)) weaken(*properties);
}

VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
    next_properties2(device, properties);
    if (!is_weak(properties->properties)) return;
    weaken(properties->properties);
    weaken_chain(*properties);
}

VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* features) {
    next_features2(device, features);
    VkPhysicalDeviceProperties properties;
    next_properties(device, &properties);
    if (is_weak(properties)) weaken_chain(*features);
}

VKAPI_ATTR void VKAPI_CALL get_queues(VkPhysicalDevice device, uint32_t* count,
                                      VkQueueFamilyProperties* families) {
    next_queues(device, count, families);
    VkPhysicalDeviceProperties properties;
    next_properties(device, &properties);
    if (families == nullptr || !is_weak(properties) || !lacks("compute queue")) return;
    for (uint32_t i = 0; i < *count; ++i) families[i].queueFlags &= ~VkFlags(VK_QUEUE_COMPUTE_BIT);
}

PFN_vkVoidFunction next_of(VkDevice device, const char* name) {
    const std::lock_guard lock(mutex);
    return devices.at(device)(device, name);
}

VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
    const std::string ability = environment("TOWERS_WEAK_ABILITY"), hangs = "answers=";
    while (ability.starts_with(hangs) && access(ability.c_str() + hangs.size(), F_OK) == 0) pause();
    return reinterpret_cast<PFN_vkWaitSemaphores>(next_of(device, "vkWaitSemaphores"))(device, info, timeout);
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* created) {
    const auto* const link = towers::test::take_link<VkLayerDeviceCreateInfo>(
        info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    const VkResult result = next_create_device(physical, info, allocator, created);
    const std::lock_guard lock(mutex);
    if (result == VK_SUCCESS) devices[*created] = link->pfnNextGetDeviceProcAddr;
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* created) {
    const VkResult result = towers::test::create_instance_below(info, allocator, created, next);
    if (result != VK_SUCCESS) return result;
    const auto find = [&]<class Function>(Function& function, const char* name) {
        function = reinterpret_cast<Function>(next(*created, name));
    };
    find(next_properties, "vkGetPhysicalDeviceProperties");
    find(next_properties2, "vkGetPhysicalDeviceProperties2");
    find(next_features2, "vkGetPhysicalDeviceFeatures2");
    find(next_queues, "vkGetPhysicalDeviceQueueFamilyProperties");
    find(next_create_device, "vkCreateDevice");
    return result;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice of, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance of, const char* name);

using towers::test::plain;
const towers::test::Functions device_functions{{"vkGetDeviceProcAddr", plain(get_device_function)},
                                               {"vkWaitSemaphores", plain(wait)}};
const towers::test::Functions instance_functions{
    {"vkGetInstanceProcAddr", plain(get_instance_function)},
    {"vkCreateInstance", plain(create_instance)},
    {"vkCreateDevice", plain(create_device)},
    {"vkGetPhysicalDeviceProperties", plain(get_properties)},
    {"vkGetPhysicalDeviceProperties2", plain(get_properties2)},
    {"vkGetPhysicalDeviceFeatures2", plain(get_features2)},
    {"vkGetPhysicalDeviceQueueFamilyProperties", plain(get_queues)}};

PFN_vkVoidFunction get_device_function(VkDevice of, const char* name) {
    const PFN_vkVoidFunction own = towers::test::find(device_functions, name);
    return own != nullptr ? own : next_of(of, name);
}

PFN_vkVoidFunction get_instance_function(VkInstance of, const char* name) {
    return towers::test::find_for_instance(instance_functions, device_functions, of, name, next);
}

} // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* negotiated) {
    return towers::test::negotiate(negotiated, get_instance_function, get_device_function);
}
