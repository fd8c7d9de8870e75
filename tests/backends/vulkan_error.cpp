// The versions of Vulkan-Hpp name a function in three ways; users search for Vulkan's own.
#include "backends/vulkan/error.h"

#include <doctest/doctest.h>

using namespace towers::vulkan;

TEST_CASE("errors name functions as Vulkan does, whichever way Vulkan-Hpp names them") {
    for (const char* const name : {"vkCreateInstance", "Context::createInstance",
                                   "vk::Context::createInstance", "vk::raii::Context::createInstance"})
        CHECK(command_name(name) == "vkCreateInstance");
    CHECK(command_name("vk::Instance::enumeratePhysicalDevices") == "vkEnumeratePhysicalDevices");
    CHECK(command_name("vk::Queue::submit2") == "vkQueueSubmit2");
    CHECK(command_name("vk::CommandBuffer::begin") == "vkBeginCommandBuffer");
    CHECK(command_name("") == "");
    const vk::DeviceLostError lost("vk::Device::waitSemaphores");
    CHECK(message_of(lost) == "vkWaitSemaphores: ErrorDeviceLost");
}
