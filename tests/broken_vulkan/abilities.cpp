// Devices that are listed otherwise, or have other abilities.
#include "tests/broken_vulkan/layer.h"
#include "tests/broken_vulkan/rules.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <mutex>

namespace towers::test {
namespace {

/// A device's second handle. The loader and layers read its first word.
struct Copy {
    void* dispatch;
    VkPhysicalDevice original;
};

std::mutex mutex;
std::list<Copy> copies;

bool is(const Copy& copy, VkPhysicalDevice shown) {
    return reinterpret_cast<VkPhysicalDevice>(const_cast<Copy*>(&copy)) == shown;
}

VkPhysicalDevice copy_of(VkPhysicalDevice original) {
    const std::lock_guard lock(mutex);
    auto copy = std::ranges::find(copies, original, &Copy::original);
    if (copy == copies.end()) copy = copies.insert(copy, {*reinterpret_cast<void**>(original), original});
    copy->dispatch = *reinterpret_cast<void**>(original);
    return reinterpret_cast<VkPhysicalDevice>(&*copy);
}

/// The devices in the order in which they are shown
std::vector<VkPhysicalDevice> arrange(const std::vector<VkPhysicalDevice>& devices) {
    std::vector<VkPhysicalDevice> first, usual, last;
    for (const VkPhysicalDevice device : devices) {
        const std::string shown = value_of("shown", name_of(device)).value_or("");
        if (shown == "never") continue;
        (shown == "first" ? first : shown == "last" ? last : usual).push_back(device);
        if (shown == "twice") usual.push_back(copy_of(device));
    }
    for (const auto& more : {usual, last}) first.insert(first.end(), more.begin(), more.end());
    return first;
}

VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t* count, VkPhysicalDevice* shown) {
    const auto next = TOWERS_NEXT(vkEnumeratePhysicalDevices, instance);
    uint32_t all = 0;
    if (const VkResult result = next(instance, &all, nullptr); result != VK_SUCCESS) return result;
    std::vector<VkPhysicalDevice> devices(all);
    if (const VkResult result = next(instance, &all, devices.data()); result != VK_SUCCESS) return result;
    devices = arrange(devices);
    const auto size = uint32_t(devices.size());
    if (shown == nullptr) {
        *count = size;
        return VK_SUCCESS;
    }
    *count = std::min(*count, size);
    std::copy_n(devices.begin(), *count, shown);
    return *count < size ? VK_INCOMPLETE : VK_SUCCESS;
}

/// Sets a device's fields to what the rules say.
class Changes {
public:
    explicit Changes(std::string device) : device_(std::move(device)) {}

    std::optional<std::string> operator[](const std::string& ability) const {
        return value_of(ability, device_);
    }

    template<class Number>
    void set(const std::string& ability, Number& field) const {
        if (const auto value = (*this)[ability]) field = Number(number(*value));
    }

    void set_uuid(uint8_t (&uuid)[VK_UUID_SIZE]) const {
        if (const auto value = (*this)["deviceUUID"]) std::ranges::fill(uuid, uint8_t(number(*value)));
    }

private:
    std::string device_;
};

#define TOWERS_SET(structure, field) changes.set(#field, (structure).field)

VkPhysicalDeviceType type_named(const std::string& name) {
    return name == "discrete"     ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
           : name == "integrated" ? VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
           : name == "virtual"    ? VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU
                                  : VK_PHYSICAL_DEVICE_TYPE_CPU;
}

void change(VkPhysicalDeviceProperties& properties, VkPhysicalDevice shown) {
    const std::string name = name_of(shown);
    const Changes changes(name);
    const std::string shown_name = changes["deviceName"].value_or(name);
    properties.deviceName[shown_name.copy(properties.deviceName, sizeof(properties.deviceName) - 1)] = '\0';
    if (const auto type = changes["deviceType"]) properties.deviceType = type_named(*type);
    if (const auto version = changes["apiVersion"])
        properties.apiVersion = VK_MAKE_API_VERSION(0, 1, number(version->substr(2)), 0);
    TOWERS_SET(properties, vendorID);
    TOWERS_SET(properties.limits, maxComputeWorkGroupInvocations);
    TOWERS_SET(properties.limits, maxComputeWorkGroupSize[0]);
    TOWERS_SET(properties.limits, maxComputeSharedMemorySize);
    TOWERS_SET(properties.limits, maxPushConstantsSize);
}

/// Changes a structure of a chain.
void change(VkBaseOutStructure& structure, const Changes& changes) {
    const auto as = [&]<class Structure>(Structure*) -> Structure& {
        return reinterpret_cast<Structure&>(structure);
    };
#define TOWERS_AS(type) as(static_cast<type*>(nullptr))
    switch (structure.sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES:
        changes.set_uuid(TOWERS_AS(VkPhysicalDeviceIDProperties).deviceUUID);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES: {
        auto& subgroup = TOWERS_AS(VkPhysicalDeviceSubgroupProperties);
        if (changes["subgroupSize"])
            subgroup.supportedOperations &= ~VkFlags(VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
        TOWERS_SET(subgroup, subgroupSize);
        TOWERS_SET(subgroup, supportedStages);
        TOWERS_SET(subgroup, supportedOperations);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES: {
        auto& all = TOWERS_AS(VkPhysicalDeviceVulkan11Properties);
        changes.set_uuid(all.deviceUUID);
        changes.set("supportedStages", all.subgroupSupportedStages);
        changes.set("supportedOperations", all.subgroupSupportedOperations);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES:
        TOWERS_SET(TOWERS_AS(VkPhysicalDeviceMaintenance3Properties), maxMemoryAllocationSize);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES:
        TOWERS_SET(TOWERS_AS(VkPhysicalDeviceMaintenance4Properties), maxBufferSize);
        break;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
        auto& features = TOWERS_AS(VkPhysicalDeviceVulkan12Features);
        TOWERS_SET(features, bufferDeviceAddress);
        TOWERS_SET(features, timelineSemaphore);
        break;
    }
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
        auto& features = TOWERS_AS(VkPhysicalDeviceVulkan13Features);
        TOWERS_SET(features, computeFullSubgroups);
        TOWERS_SET(features, subgroupSizeControl);
        TOWERS_SET(features, synchronization2);
        TOWERS_SET(features, maintenance4);
        break;
    }
    default:
        break;
    }
#undef TOWERS_AS
}

template<class Structure>
void change_chain(Structure& first, VkPhysicalDevice shown) {
    const Changes changes(name_of(shown));
    for (auto* each = static_cast<VkBaseOutStructure*>(first.pNext); each != nullptr; each = each->pNext)
        change(*each, changes);
}

VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties* properties) {
    TOWERS_NEXT(vkGetPhysicalDeviceProperties, device)(real(device), properties);
    change(*properties, device);
}

VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
    TOWERS_NEXT(vkGetPhysicalDeviceProperties2, device)(real(device), properties);
    change(properties->properties, device);
    change_chain(*properties, device);
}

VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* features) {
    TOWERS_NEXT(vkGetPhysicalDeviceFeatures2, device)(real(device), features);
    change_chain(*features, device);
}

VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice device, uint32_t* count,
                                        VkQueueFamilyProperties* families) {
    TOWERS_NEXT(vkGetPhysicalDeviceQueueFamilyProperties, device)(real(device), count, families);
    if (families == nullptr) return;
    const Changes changes(name_of(device));
    for (uint32_t i = 0; i < *count; ++i) TOWERS_SET(families[i], queueFlags);
}

} // namespace

VkPhysicalDevice real(VkPhysicalDevice shown) {
    const std::lock_guard lock(mutex);
    for (const Copy& copy : copies)
        if (is(copy, shown)) return copy.original;
    return shown;
}

std::string name_of(VkPhysicalDevice shown) {
    const VkPhysicalDevice driver = real(shown);
    VkPhysicalDeviceProperties properties;
    TOWERS_NEXT(vkGetPhysicalDeviceProperties, driver)(driver, &properties);
    return std::string(properties.deviceName) + (shown != driver ? " (again)" : "");
}

const Functions& abilities() {
    static const Functions functions{{"vkEnumeratePhysicalDevices", plain(enumerate)},
                                     {"vkGetPhysicalDeviceProperties", plain(get_properties)},
                                     {"vkGetPhysicalDeviceProperties2", plain(get_properties2)},
                                     {"vkGetPhysicalDeviceFeatures2", plain(get_features2)},
                                     {"vkGetPhysicalDeviceQueueFamilyProperties", plain(get_families)}};
    return functions;
}

} // namespace towers::test
