// What Vulkan-Hpp throws, as messages tell it.
#pragma once

#include "backends/vulkan/headers.h"

#include <string>
#include <string_view>

namespace towers::vulkan {

/// Vulkan's own name of a function that Vulkan-Hpp calls `vk::Queue::submit2`: `vkQueueSubmit2`. Its versions
/// name one function in different ways; a name that is already Vulkan's stays.
std::string command_name(std::string_view name);

/// `vkCreateDevice: ErrorDeviceLost`
std::string message_of(const vk::SystemError& error);

} // namespace towers::vulkan
