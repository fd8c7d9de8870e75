// Devices with other heaps and types of memory.
#include "tests/broken_vulkan/layer.h"
#include "tests/broken_vulkan/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <sstream>

namespace towers::test {
namespace {

using Properties = VkPhysicalDeviceMemoryProperties;

struct Piece {
    uint32_t heap;
    VkDeviceSize bytes;
    bool visible;
};

std::mutex mutex;
std::map<std::string, std::array<VkDeviceSize, VK_MAX_MEMORY_HEAPS>> used; ///< of a device's heaps
std::map<VkDeviceMemory, Piece> pieces;

/// The words between two commas
std::vector<std::vector<std::string>> lists_in(const std::string& text) {
    std::vector<std::vector<std::string>> lists;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        std::istringstream words(part);
        std::string word;
        for (lists.emplace_back(); words >> word;) lists.back().push_back(word);
    }
    return lists;
}

VkMemoryPropertyFlags flags_of(const std::string& word) {
    return word == "local"     ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
           : word == "visible" ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
           : word == "cached"  ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT
                               : 0;
}

/// A device's memory as the rules have it
std::optional<Properties> shown_memory(const std::string& device) {
    const auto heaps = value_of("heaps", device), types = value_of("types", device);
    if (!heaps || !types) return {};
    Properties shown{};
    for (const auto& words : lists_in(*heaps))
        shown.memoryHeaps[shown.memoryHeapCount++] = {
            number(words.at(0)), words.size() > 1 ? VkMemoryHeapFlags(VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) : 0};
    for (const auto& words : lists_in(*types)) {
        VkMemoryType& type = shown.memoryTypes[shown.memoryTypeCount++];
        type.heapIndex = uint32_t(number(words.at(0)));
        for (const std::string& word : words) type.propertyFlags |= flags_of(word);
    }
    return shown;
}

/// The driver's type of memory for a shown one
uint32_t driver_type(const Below& device, const VkMemoryType& shown) {
    Properties own;
    TOWERS_NEXT(vkGetPhysicalDeviceMemoryProperties, device.physical)(device.physical, &own);
    for (uint32_t i = 0; i < own.memoryTypeCount; ++i)
        if ((own.memoryTypes[i].propertyFlags & shown.propertyFlags) == shown.propertyFlags) return i;
    return 0;
}

VKAPI_ATTR void VKAPI_CALL get_memory(VkPhysicalDevice device, Properties* properties) {
    TOWERS_NEXT(vkGetPhysicalDeviceMemoryProperties, device)(real(device), properties);
    if (const auto shown = shown_memory(name_of(device))) *properties = *shown;
}

VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice device,
                                       VkPhysicalDeviceMemoryProperties2* properties) {
    TOWERS_NEXT(vkGetPhysicalDeviceMemoryProperties2, device)(real(device), properties);
    const std::string name = name_of(device);
    const auto shown = shown_memory(name);
    if (!shown) return;
    properties->memoryProperties = *shown;
    for (auto* each = static_cast<VkBaseOutStructure*>(properties->pNext); each != nullptr;
         each = each->pNext) {
        if (each->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT) continue;
        auto& budget = reinterpret_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT&>(*each);
        const std::lock_guard lock(mutex);
        for (uint32_t i = 0; i < shown->memoryHeapCount; ++i) {
            budget.heapBudget[i] = shown->memoryHeaps[i].size;
            budget.heapUsage[i] = used[name][i];
        }
    }
}

/// With the extension that tells how much is free. Software drivers lack it, and nothing must enable it.
VKAPI_ATTR VkResult VKAPI_CALL get_extensions(VkPhysicalDevice device, const char* layer, uint32_t* count,
                                              VkExtensionProperties* extensions) {
    const auto next = TOWERS_NEXT(vkEnumerateDeviceExtensionProperties, device);
    const uint32_t room = *count;
    const VkResult result = next(real(device), layer, count, extensions);
    if (result != VK_SUCCESS || layer != nullptr || !shown_memory(name_of(device))) return result;
    if (extensions != nullptr && *count == room) return VK_INCOMPLETE;
    if (extensions != nullptr) extensions[*count] = {VK_EXT_MEMORY_BUDGET_EXTENSION_NAME, 1};
    ++*count;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* allocator, VkDeviceMemory* memory) {
    const auto next = TOWERS_NEXT(vkAllocateMemory, device);
    const Below& object = below(device);
    const auto shown = shown_memory(object.name);
    if (!shown) return next(device, info, allocator, memory);
    const VkMemoryType& type = shown->memoryTypes[info->memoryTypeIndex];
    const Piece piece{type.heapIndex, info->allocationSize,
                      (type.propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0};
    const std::lock_guard lock(mutex);
    VkDeviceSize& used_bytes = used[object.name][piece.heap];
    if (used_bytes + piece.bytes > shown->memoryHeaps[piece.heap].size) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    VkMemoryAllocateInfo changed = *info;
    changed.memoryTypeIndex = driver_type(object, type);
    const VkResult result = next(device, &changed, allocator, memory);
    if (result != VK_SUCCESS) return result;
    used_bytes += piece.bytes;
    pieces[*memory] = piece;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL free(VkDevice device, VkDeviceMemory memory,
                                const VkAllocationCallbacks* allocator) {
    {
        const std::lock_guard lock(mutex);
        if (const auto piece = pieces.find(memory); piece != pieces.end()) {
            used[below(device).name][piece->second.heap] -= piece->second.bytes;
            pieces.erase(piece);
        }
    }
    TOWERS_NEXT(vkFreeMemory, device)(device, memory, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                   VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
    {
        const std::lock_guard lock(mutex);
        const auto piece = pieces.find(memory);
        if (piece != pieces.end() && !piece->second.visible) return VK_ERROR_MEMORY_MAP_FAILED;
    }
    return TOWERS_NEXT(vkMapMemory, device)(device, memory, offset, size, flags, data);
}

/// A buffer may be in every shown type, or in those that a rule names.
void allow_shown(VkDevice device, VkMemoryRequirements& requirements) {
    const std::string& name = below(device).name;
    if (const auto shown = shown_memory(name))
        requirements.memoryTypeBits = (1u << shown->memoryTypeCount) - 1;
    if (const auto bits = value_of("memoryTypeBits", name))
        requirements.memoryTypeBits = uint32_t(number(*bits));
}

VKAPI_ATTR void VKAPI_CALL get_requirements(VkDevice device, VkBuffer buffer,
                                            VkMemoryRequirements* requirements) {
    TOWERS_NEXT(vkGetBufferMemoryRequirements, device)(device, buffer, requirements);
    allow_shown(device, *requirements);
}

VKAPI_ATTR void VKAPI_CALL get_requirements2(VkDevice device, const VkBufferMemoryRequirementsInfo2* info,
                                             VkMemoryRequirements2* requirements) {
    TOWERS_NEXT(vkGetBufferMemoryRequirements2, device)(device, info, requirements);
    allow_shown(device, requirements->memoryRequirements);
}

} // namespace

const Functions& memory() {
    static const Functions functions{{"vkGetPhysicalDeviceMemoryProperties", plain(get_memory)},
                                     {"vkGetPhysicalDeviceMemoryProperties2", plain(get_memory2)},
                                     {"vkEnumerateDeviceExtensionProperties", plain(get_extensions)},
                                     {"vkAllocateMemory", plain(allocate)},
                                     {"vkFreeMemory", plain(free)},
                                     {"vkMapMemory", plain(map)},
                                     {"vkGetBufferMemoryRequirements", plain(get_requirements)},
                                     {"vkGetBufferMemoryRequirements2", plain(get_requirements2)}};
    return functions;
}

} // namespace towers::test
