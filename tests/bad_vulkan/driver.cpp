// A Vulkan driver that fails as TOWERS_BAD_DRIVER says: `PLACE=HOW`, where PLACE is one of the functions
// below, or `load`, and misbehave_as_vulkan() knows HOW. Otherwise it has one device, of Vulkan 1.0.
#include "tests/support/misbehave_vulkan.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

namespace {

/// Fails if TOWERS_BAD_DRIVER names `place`; otherwise returns VK_SUCCESS.
VkResult behave(std::string_view place) {
    const char* const text = std::getenv("TOWERS_BAD_DRIVER");
    const std::string_view all = text != nullptr ? text : "";
    const std::size_t equals = all.find('=');
    if (equals == all.npos || all.substr(0, equals) != place) return VK_SUCCESS;
    return towers::test::misbehave_as_vulkan(std::string(all.substr(equals + 1)));
}

[[maybe_unused]] const VkResult loaded = behave("load");

VK_LOADER_DATA device;

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo*, const VkAllocationCallbacks*,
                                               VkInstance* created) {
    const VkResult result = behave("vkCreateInstance");
    if (result != VK_SUCCESS) return result;
    auto* const data = new VK_LOADER_DATA;
    set_loader_magic_value(data);
    *created = reinterpret_cast<VkInstance>(data);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks*) {
    delete reinterpret_cast<VK_LOADER_DATA*>(instance);
}

VKAPI_ATTR VkResult VKAPI_CALL enumerate_devices(VkInstance, uint32_t* count, VkPhysicalDevice* devices) {
    const VkResult result = behave("vkEnumeratePhysicalDevices");
    if (result != VK_SUCCESS) return result;
    if (devices != nullptr && *count > 0) {
        set_loader_magic_value(&device);
        devices[0] = reinterpret_cast<VkPhysicalDevice>(&device);
    }
    *count = 1;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice, VkPhysicalDeviceProperties* properties) {
    behave("vkGetPhysicalDeviceProperties");
    *properties = {};
    properties->apiVersion = VK_API_VERSION_1_0;
    properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    std::strcpy(properties->deviceName, "Bad device");
}

VKAPI_ATTR VkResult VKAPI_CALL get_extensions(const char*, uint32_t* count, VkExtensionProperties*) {
    *count = 0;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL get_device_extensions(VkPhysicalDevice, const char*, uint32_t* count,
                                                     VkExtensionProperties*) {
    *count = 0;
    return VK_SUCCESS;
}

/// The loader requires more functions than the tests call.
VKAPI_ATTR void VKAPI_CALL uncalled() { std::abort(); }

} // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vk_icdGetInstanceProcAddr(VkInstance, const char* name) {
    const std::string_view wanted = name;
    const auto as = [](auto function) { return reinterpret_cast<PFN_vkVoidFunction>(function); };
    if (wanted == "vkCreateInstance") return as(create_instance);
    if (wanted == "vkDestroyInstance") return as(destroy_instance);
    if (wanted == "vkEnumeratePhysicalDevices") return as(enumerate_devices);
    if (wanted == "vkGetPhysicalDeviceProperties") return as(get_properties);
    if (wanted == "vkEnumerateInstanceExtensionProperties") return as(get_extensions);
    if (wanted == "vkEnumerateDeviceExtensionProperties") return as(get_device_extensions);
    for (const char* const other :
         {"vkGetPhysicalDeviceFeatures", "vkGetPhysicalDeviceFormatProperties",
          "vkGetPhysicalDeviceImageFormatProperties", "vkGetPhysicalDeviceMemoryProperties",
          "vkGetPhysicalDeviceQueueFamilyProperties", "vkGetPhysicalDeviceSparseImageFormatProperties",
          "vkCreateDevice", "vkGetDeviceProcAddr"})
        if (wanted == other) return uncalled;
    return nullptr;
}

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t* version) {
    *version = 4;
    return behave("vk_icdNegotiateLoaderICDInterfaceVersion");
}
