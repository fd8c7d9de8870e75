// A Vulkan layer between the program and the drivers, which lets calls fail and shows devices that are
// different, so that tests can see what our machines lack. rules.h says how to tell it.
#include "tests/broken_vulkan/layer.h"

#include "tests/broken_vulkan/rules.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <type_traits>

namespace towers::test {
namespace {

#define TOWERS_CALL(name) name,
enum class Call : std::size_t {
#include "commands.inc"
};
#undef TOWERS_CALL

template<class Command>
constexpr bool of_instance = false;
template<class Result, class Handle, class... Rest>
constexpr bool of_instance<Result(VKAPI_PTR*)(Handle, Rest...)> =
    std::is_same_v<Handle, VkInstance> || std::is_same_v<Handle, VkPhysicalDevice>;

#define TOWERS_CALL(name) {#name, of_instance<PFN_##name>},
constexpr struct {
    const char* name;
    bool of_instance; ///< or of a physical device: a device must not be asked for its function
} known[] = {
#include "commands.inc"
};
#undef TOWERS_CALL

std::mutex mutex;
std::map<void*, Below> all_below; ///< by the loader's pointer, which an object shares with what it creates
PFN_vkGetInstanceProcAddr next_instance_function = nullptr;

void* key_of(void* object) { return *static_cast<void**>(object); }

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice, const VkDeviceCreateInfo*,
                                             const VkAllocationCallbacks*, VkDevice*);

/// The layer's own function, which does more than to fail
PFN_vkVoidFunction own(const char* name) {
    static const Functions creation{{"vkCreateDevice", plain(create_device)}};
    for (const Functions* each : {&creation, &abilities(), &memory()})
        if (const PFN_vkVoidFunction found = find(*each, name)) return found;
    return nullptr;
}

/// `next_of`: finds a command of the next layer or driver. It must be asked at once: later the loader's own
/// answers are the whole chain's.
template<class NextOf>
void add_below(void* object, Below below, NextOf&& next_of) {
    const bool device = below.created != VK_NULL_HANDLE;
    for (const auto& [name, of_instance] : known) {
        const PFN_vkVoidFunction next = device && of_instance ? nullptr : next_of(name), changed = own(name);
        below.next[name] = next;
        below.calls.push_back(changed != nullptr ? changed : next);
    }
    const std::lock_guard lock(mutex);
    all_below[key_of(object)] = std::move(below);
}

template<Call call, class Function>
struct Command;

/// The layer's function for a command: does what the rules say, then the command itself.
template<Call call, class Result, class Handle, class... Rest>
struct Command<call, Result(VKAPI_PTR*)(Handle, Rest...)> {
    static VKAPI_ATTR Result VKAPI_CALL run(Handle handle, Rest... rest) {
        constexpr const char* name = known[std::size_t(call)].name;
        const Below& object = below(handle);
        VkResult result = VK_SUCCESS;
        if constexpr (std::is_same_v<Handle, VkPhysicalDevice>) {
            result = disturb(name, name_of(handle));
            if (own(name) == nullptr) handle = real(handle);
        } else {
            result = disturb(name, object.name);
        }
        if constexpr (std::is_same_v<Result, VkResult>) {
            // On a lost device nothing runs any more.
            if (result == VK_ERROR_DEVICE_LOST && object.created != VK_NULL_HANDLE)
                TOWERS_NEXT(vkDeviceWaitIdle, object.created)(object.created);
            if (result != VK_SUCCESS) return result;
        }
        return reinterpret_cast<Result(VKAPI_PTR*)(Handle, Rest...)>(object.calls[std::size_t(call)])(
            handle, rest...);
    }
};

#define TOWERS_CALL(name) {#name, plain(Command<Call::name, PFN_##name>::run)},
const Functions commands{
#include "commands.inc"
};
#undef TOWERS_CALL

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* created) {
    if (const VkResult result = disturb("vkCreateInstance", ""); result != VK_SUCCESS) return result;
    const VkResult result = create_instance_below(info, allocator, created, next_instance_function);
    if (result != VK_SUCCESS) return result;
    add_below(*created, {}, [&](const char* name) { return next_instance_function(*created, name); });
    return VK_SUCCESS;
}

VkResult create_device(VkPhysicalDevice shown, const VkDeviceCreateInfo* info,
                       const VkAllocationCallbacks* allocator, VkDevice* created) {
    const auto* const link =
        take_link<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    const PFN_vkGetDeviceProcAddr next = link->pfnNextGetDeviceProcAddr;
    const VkResult result = TOWERS_NEXT(vkCreateDevice, shown)(real(shown), info, allocator, created);
    if (result != VK_SUCCESS) return result;
    add_below(*created,
              {.function = next, .created = *created, .physical = real(shown), .name = name_of(shown)},
              [&](const char* name) { return next(*created, name); });
    return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name);

const Functions of_devices{{"vkGetDeviceProcAddr", plain(get_device_function)}};
const Functions of_instances{{"vkGetInstanceProcAddr", plain(get_instance_function)},
                             {"vkCreateInstance", plain(create_instance)}};

PFN_vkVoidFunction get_device_function(VkDevice device, const char* name) {
    if (const PFN_vkVoidFunction found = find(of_devices, name)) return found;
    const PFN_vkVoidFunction next = below(device).function(device, name), command = find(commands, name);
    return next != nullptr && command != nullptr ? command : next;
}

PFN_vkVoidFunction get_instance_function(VkInstance instance, const char* name) {
    if (const PFN_vkVoidFunction found = find(of_instances, name)) return found;
    return find_for_instance(commands, of_devices, instance, name, next_instance_function);
}

} // namespace

const Below& below_object(void* object) {
    const std::lock_guard lock(mutex);
    return all_below.at(key_of(object));
}

} // namespace towers::test

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* negotiated) {
    using namespace towers::test;
    const VkResult result = disturb("vkNegotiateLoaderLayerInterfaceVersion", "");
    if (result != VK_SUCCESS) return result;
    return negotiate(negotiated, get_instance_function, get_device_function);
}
