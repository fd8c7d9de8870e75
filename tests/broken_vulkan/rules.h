// What the layer changes: the rules in TOWERS_BROKEN_VULKAN (tests/support/rules.h).
//
// A call that fails: a rule of a Vulkan command. HOW: see misbehave_as_vulkan().
// For example: vkCreateDevice@llvmpipe#2=hang;vkQueueSubmit2#10+=VK_ERROR_DEVICE_LOST
//
// A device that is different: ABILITY[@DEVICE]=VALUE
// - deviceName=TEXT, deviceUUID=BYTE, deviceType=KIND (discrete, integrated, virtual or cpu)
// - subgroupSize=64, unless a pipeline asks; without shuffles, for overrides rely on that size
// - apiVersion=1.2, and by its name in Vulkan what else abilities.cpp lists
// - heaps=256M local,4G for the heaps of its memory, with types=0 local visible,1 visible cached: the heap
//   and the properties of each type of memory (`visible` is also coherent). The driver's first type with
//   these properties serves it, else its first. A heap gives no more than its size, and tells how much is
//   free. memoryTypeBits=6 for buffers that may only be in types 1 and 2
// - shown=PLACE, in the list of devices: never, first, last, or twice; the copy's name ends with "(again)"
// For example: deviceType@SwiftShader=discrete;shown@SwiftShader=twice
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vulkan/vulkan.h>

namespace towers::test {

/// Logs the call and does what the rules say. Anything but VK_SUCCESS is what the call shall return.
/// `device`: empty for calls of no device.
VkResult disturb(const std::string& call, const std::string& device);

/// What a rule says of this ability.
std::optional<std::string> value_of(const std::string& ability, const std::string& device);

/// Of a text such as `0x10DE` or `256M`
unsigned long long number(const std::string& text);

} // namespace towers::test
