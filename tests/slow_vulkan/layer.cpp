// A Vulkan layer between the program and the drivers. It simulates a slow device whose driver takes long work
// for a hang, as kernel drivers do. It adds TOWERS_SLOW_MS milliseconds to each dispatch; a submission whose
// dispatches take more than TOWERS_SLOW_LIMIT loses the device. TOWERS_SLOW_LOG names a file for the number
// of dispatches in each submission that has any.
#include "tests/support/vulkan_layer.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

namespace {

double number(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? std::strtod(value, nullptr) : 0;
}

VkInstance instance = VK_NULL_HANDLE; ///< the latest
PFN_vkGetInstanceProcAddr next_instance_function = nullptr;

/// A device's functions in the next layer or driver
struct Next {
    PFN_vkGetDeviceProcAddr function = nullptr;
    PFN_vkBeginCommandBuffer begin = nullptr;
    PFN_vkCmdDispatch dispatch = nullptr;
    PFN_vkQueueSubmit2 submit = nullptr;
    PFN_vkQueueWaitIdle wait_idle = nullptr;
    PFN_vkWaitSemaphores wait = nullptr;
};

std::atomic<bool> lost = false;
std::mutex mutex; ///< guards all that follows
std::map<void*, Next> devices;
std::map<VkCommandBuffer, unsigned> dispatches; ///< in each command buffer since its begin

/// The loader's pointer, which a device shares with its queues and command buffers.
template<class Handle>
void* key_of(Handle handle) {
    return *reinterpret_cast<void**>(handle);
}

template<class Handle>
Next next_of(Handle handle) {
    const std::lock_guard lock(mutex);
    return devices.at(key_of(handle));
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* created) {
    const VkResult result =
        towers::test::create_instance_below(info, allocator, created, next_instance_function);
    if (result == VK_SUCCESS) instance = *created;
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* created) {
    const auto* const link = towers::test::take_link<VkLayerDeviceCreateInfo>(
        info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    Next next{.function = link->pfnNextGetDeviceProcAddr};
    const auto create =
        reinterpret_cast<PFN_vkCreateDevice>(link->pfnNextGetInstanceProcAddr(instance, "vkCreateDevice"));
    const VkResult result = create(physical, info, allocator, created);
    if (result != VK_SUCCESS) return result;
    const auto find = [&]<class Function>(Function& function, const char* name) {
        function = reinterpret_cast<Function>(next.function(*created, name));
    };
    find(next.begin, "vkBeginCommandBuffer");
    find(next.dispatch, "vkCmdDispatch");
    find(next.submit, "vkQueueSubmit2");
    find(next.wait_idle, "vkQueueWaitIdle");
    find(next.wait, "vkWaitSemaphores");
    const std::lock_guard lock(mutex);
    devices[key_of(*created)] = next;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL begin(VkCommandBuffer buffer, const VkCommandBufferBeginInfo* info) {
    const PFN_vkBeginCommandBuffer next = next_of(buffer).begin;
    const std::lock_guard lock(mutex);
    dispatches[buffer] = 0;
    return next(buffer, info);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
    next_of(buffer).dispatch(buffer, x, y, z);
    const std::lock_guard lock(mutex);
    ++dispatches[buffer];
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo2* infos,
                                      VkFence fence) {
    unsigned all = 0;
    {
        const std::lock_guard lock(mutex);
        for (const VkSubmitInfo2* info = infos; info != infos + count; ++info)
            for (uint32_t i = 0; i < info->commandBufferInfoCount; ++i)
                all += dispatches[info->pCommandBufferInfos[i].commandBuffer];
        if (const char* const log = std::getenv("TOWERS_SLOW_LOG"); log != nullptr && all > 0)
            std::ofstream(log, std::ios::app) << all << '\n';
    }
    const double milliseconds = all * number("TOWERS_SLOW_MS");
    if (milliseconds > number("TOWERS_SLOW_LIMIT")) lost = true;
    if (lost) return VK_ERROR_DEVICE_LOST;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
    return next_of(queue).submit(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkQueue queue) {
    return lost ? VK_ERROR_DEVICE_LOST : next_of(queue).wait_idle(queue);
}

VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
    return lost ? VK_ERROR_DEVICE_LOST : next_of(device).wait(device, info, timeout);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice of, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance of, const char* name);

using towers::test::plain;
const towers::test::Functions device_functions{{"vkGetDeviceProcAddr", plain(get_device_function)},
                                               {"vkBeginCommandBuffer", plain(begin)},
                                               {"vkCmdDispatch", plain(dispatch)},
                                               {"vkQueueSubmit2", plain(submit)},
                                               {"vkQueueWaitIdle", plain(wait_idle)},
                                               {"vkWaitSemaphores", plain(wait)}};
const towers::test::Functions instance_functions{{"vkGetInstanceProcAddr", plain(get_instance_function)},
                                                 {"vkCreateInstance", plain(create_instance)},
                                                 {"vkCreateDevice", plain(create_device)}};

PFN_vkVoidFunction get_device_function(VkDevice of, const char* name) {
    return towers::test::find_for_device(device_functions, of, name, next_of<VkDevice>);
}

PFN_vkVoidFunction get_instance_function(VkInstance of, const char* name) {
    return towers::test::find_for_instance(instance_functions, device_functions, of, name,
                                           next_instance_function);
}

} // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* negotiated) {
    return towers::test::negotiate(negotiated, get_instance_function, get_device_function);
}
