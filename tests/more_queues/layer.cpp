// A Vulkan layer between the program and drivers with one queue. It presents queues as cards have them, so
// that tests can see how a program uses them, and the validation layer above can check that. All of them are
// the driver's one queue; but submissions that need not wait for each other run in another order than they
// were submitted in, later queues first. TOWERS_MORE_QUEUES is `copies` for a further family with two queues
// that only copy, `compute` for one whose queues draw nothing, or `alike` for three queues in the family that
// the driver has.
#include "tests/support/vulkan_layer.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace {

bool shows(std::string_view queues) {
    const char* const value = std::getenv("TOWERS_MORE_QUEUES");
    return value != nullptr && value == queues;
}

VkInstance instance = VK_NULL_HANDLE; ///< the latest
// The next layer's or driver's functions
PFN_vkGetInstanceProcAddr next_instance_function = nullptr;
PFN_vkGetPhysicalDeviceQueueFamilyProperties next_families = nullptr;

struct NextDevice {
    PFN_vkGetDeviceProcAddr function = nullptr;
    PFN_vkGetDeviceQueue queue = nullptr;
    PFN_vkCreateCommandPool create_pool = nullptr;
    PFN_vkCreateBuffer create_buffer = nullptr;
    PFN_vkQueueSubmit submit = nullptr;
    PFN_vkQueueSubmit2 submit2 = nullptr;
    PFN_vkQueueWaitIdle wait_idle = nullptr;
    PFN_vkWaitSemaphores wait = nullptr;
    PFN_vkDestroySemaphore destroy_semaphore = nullptr;
};

/// A submission that the driver has not received yet.
struct Held {
    std::vector<VkSemaphoreSubmitInfo> waits, signals;
    std::vector<VkCommandBufferSubmitInfo> commands;
};

/// The object of one of this layer's VkQueues. The loader writes to its first word.
struct ShownQueue {
    void* dispatch = nullptr;
    VkQueue driver_queue = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    std::deque<Held> held = {};
};

std::recursive_mutex mutex; ///< guards all that follows
std::map<VkDevice, NextDevice> devices;
std::map<std::pair<VkDevice, std::pair<uint32_t, uint32_t>>, ShownQueue> queues;
std::map<VkSemaphore, uint64_t> promised; ///< values that the driver's submissions will signal

const NextDevice& next_of(VkDevice device) {
    const std::lock_guard lock(mutex);
    return devices.at(device);
}

VKAPI_ATTR void VKAPI_CALL get_families(VkPhysicalDevice device, uint32_t* count,
                                        VkQueueFamilyProperties* families) {
    uint32_t own = 1; // hides further queues, which the tests' drivers do not have
    VkQueueFamilyProperties family;
    next_families(device, &own, &family);
    const uint32_t shown = shows("copies") || shows("compute") ? 2 : 1;
    if (families == nullptr) {
        *count = shown;
        return;
    }
    if (shows("alike")) family.queueCount = 3;
    if (*count > 0) families[0] = family;
    if (*count > 1 && shown > 1) {
        families[1] = family;
        families[1].queueFlags = VK_QUEUE_TRANSFER_BIT;
        if (shows("compute")) families[1].queueFlags |= VK_QUEUE_COMPUTE_BIT;
        families[1].queueCount = 2;
    }
    *count = std::min(*count, shown);
}

VKAPI_ATTR void VKAPI_CALL get_families2(VkPhysicalDevice device, uint32_t* count,
                                         VkQueueFamilyProperties2* families) {
    if (families == nullptr) {
        get_families(device, count, nullptr);
        return;
    }
    std::vector<VkQueueFamilyProperties> shown(*count);
    get_families(device, count, shown.data());
    for (uint32_t i = 0; i < *count; ++i) families[i].queueFamilyProperties = shown[i];
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkInstance* created) {
    const VkResult result =
        towers::test::create_instance_below(info, allocator, created, next_instance_function);
    if (result != VK_SUCCESS) return result;
    instance = *created;
    next_families = reinterpret_cast<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(
        next_instance_function(*created, "vkGetPhysicalDeviceQueueFamilyProperties"));
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkDevice* created) {
    const auto* const link = towers::test::take_link<VkLayerDeviceCreateInfo>(
        info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    NextDevice next{.function = link->pfnNextGetDeviceProcAddr};
    const auto create =
        reinterpret_cast<PFN_vkCreateDevice>(link->pfnNextGetInstanceProcAddr(instance, "vkCreateDevice"));
    VkDeviceQueueCreateInfo queue = info->pQueueCreateInfos[0];
    queue.queueFamilyIndex = 0;
    queue.queueCount = 1;
    VkDeviceCreateInfo changed = *info;
    changed.queueCreateInfoCount = 1;
    changed.pQueueCreateInfos = &queue;
    const VkResult result = create(physical, &changed, allocator, created);
    if (result != VK_SUCCESS) return result;
    const auto find = [&]<class Function>(Function& function, const char* name) {
        function = reinterpret_cast<Function>(next.function(*created, name));
    };
    find(next.queue, "vkGetDeviceQueue");
    find(next.create_pool, "vkCreateCommandPool");
    find(next.create_buffer, "vkCreateBuffer");
    find(next.submit, "vkQueueSubmit");
    find(next.submit2, "vkQueueSubmit2");
    find(next.wait_idle, "vkQueueWaitIdle");
    find(next.wait, "vkWaitSemaphores");
    find(next.destroy_semaphore, "vkDestroySemaphore");
    const std::lock_guard lock(mutex);
    devices[*created] = next;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
    const NextDevice& next = next_of(device);
    VkQueue driver_queue = VK_NULL_HANDLE;
    next.queue(device, 0, 0, &driver_queue);
    const std::lock_guard lock(mutex);
    ShownQueue& shown = queues[{device, {family, index}}];
    if (shown.driver_queue != driver_queue) // the loader knows the driver's own already
        shown = {*reinterpret_cast<void**>(driver_queue), driver_queue, device};
    *queue = reinterpret_cast<VkQueue>(&shown);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                           const VkAllocationCallbacks* allocator, VkCommandPool* pool) {
    VkCommandPoolCreateInfo changed = *info;
    changed.queueFamilyIndex = 0;
    return next_of(device).create_pool(device, &changed, allocator, pool);
}

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
    VkBufferCreateInfo changed = *info;
    changed.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    return next_of(device).create_buffer(device, &changed, allocator, buffer);
}

bool may_run(const Held& held) {
    return std::all_of(held.waits.begin(), held.waits.end(),
                       [](const auto& wait) { return wait.value <= promised[wait.semaphore]; });
}

VkResult run(const ShownQueue& queue, const Held& held) {
    for (const VkSemaphoreSubmitInfo& signal : held.signals) promised[signal.semaphore] = signal.value;
    VkSubmitInfo2 info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    info.waitSemaphoreInfoCount = uint32_t(held.waits.size());
    info.pWaitSemaphoreInfos = held.waits.data();
    info.commandBufferInfoCount = uint32_t(held.commands.size());
    info.pCommandBufferInfos = held.commands.data();
    info.signalSemaphoreInfoCount = uint32_t(held.signals.size());
    info.pSignalSemaphoreInfos = held.signals.data();
    return devices.at(queue.device).submit2(queue.driver_queue, 1, &info, VK_NULL_HANDLE);
}

/// Hands all of the device's submissions to the driver, the last queue's first.
VkResult run_all(VkDevice device) {
    const std::lock_guard lock(mutex);
    for (bool some = true; some;) {
        some = false;
        for (auto each = queues.rbegin(); each != queues.rend(); ++each)
            while (each->first.first == device && !each->second.held.empty() &&
                   may_run(each->second.held.front())) {
                const VkResult result = run(each->second, each->second.held.front());
                if (result != VK_SUCCESS) return result;
                each->second.held.pop_front();
                some = true;
            }
    }
    return VK_SUCCESS;
}

ShownQueue& shown_queue(VkQueue queue) { return *reinterpret_cast<ShownQueue*>(queue); }

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                      VkFence fence) {
    const ShownQueue& shown = shown_queue(queue);
    if (const VkResult result = run_all(shown.device); result != VK_SUCCESS) return result;
    return next_of(shown.device).submit(shown.driver_queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL submit2(VkQueue queue, uint32_t count, const VkSubmitInfo2* infos, VkFence) {
    const std::lock_guard lock(mutex);
    for (const VkSubmitInfo2* info = infos; info != infos + count; ++info)
        shown_queue(queue).held.push_back(
            {{info->pWaitSemaphoreInfos, info->pWaitSemaphoreInfos + info->waitSemaphoreInfoCount},
             {info->pSignalSemaphoreInfos, info->pSignalSemaphoreInfos + info->signalSemaphoreInfoCount},
             {info->pCommandBufferInfos, info->pCommandBufferInfos + info->commandBufferInfoCount}});
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL wait_idle(VkQueue queue) {
    const ShownQueue& shown = shown_queue(queue);
    if (const VkResult result = run_all(shown.device); result != VK_SUCCESS) return result;
    return next_of(shown.device).wait_idle(shown.driver_queue);
}

VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
    if (const VkResult result = run_all(device); result != VK_SUCCESS) return result;
    return next_of(device).wait(device, info, timeout);
}

VKAPI_ATTR void VKAPI_CALL destroy_semaphore(VkDevice device, VkSemaphore semaphore,
                                             const VkAllocationCallbacks* allocator) {
    const std::lock_guard lock(mutex);
    promised.erase(semaphore);
    next_of(device).destroy_semaphore(device, semaphore, allocator);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice of, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance of, const char* name);

using towers::test::plain;
const towers::test::Functions device_functions{{"vkGetDeviceProcAddr", plain(get_device_function)},
                                               {"vkGetDeviceQueue", plain(get_queue)},
                                               {"vkCreateCommandPool", plain(create_pool)},
                                               {"vkCreateBuffer", plain(create_buffer)},
                                               {"vkQueueSubmit", plain(submit)},
                                               {"vkQueueSubmit2", plain(submit2)},
                                               {"vkQueueWaitIdle", plain(wait_idle)},
                                               {"vkWaitSemaphores", plain(wait)},
                                               {"vkDestroySemaphore", plain(destroy_semaphore)}};
const towers::test::Functions instance_functions{
    {"vkGetInstanceProcAddr", plain(get_instance_function)},
    {"vkCreateInstance", plain(create_instance)},
    {"vkCreateDevice", plain(create_device)},
    {"vkGetPhysicalDeviceQueueFamilyProperties", plain(get_families)},
    {"vkGetPhysicalDeviceQueueFamilyProperties2", plain(get_families2)}};

PFN_vkVoidFunction get_device_function(VkDevice of, const char* name) {
    return towers::test::find_for_device(device_functions, of, name, next_of);
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
