#include "backends/vulkan/error.h"

#include <cctype>
#include <fmt/format.h>
#include <map>

namespace towers::vulkan {

std::string command_name(std::string_view name) {
    // Vulkan-Hpp leaves the object's type out of most members' names. A command's name has it where it is the
    // command's object only.
    static const std::map<std::string_view, std::string_view> others{
        {"CommandBuffer::begin", "vkBeginCommandBuffer"},
        {"CommandBuffer::end", "vkEndCommandBuffer"},
        {"CommandBuffer::reset", "vkResetCommandBuffer"},
        {"CommandPool::reset", "vkResetCommandPool"},
        {"Device::waitIdle", "vkDeviceWaitIdle"},
        {"DeviceMemory::mapMemory", "vkMapMemory"},
        {"PipelineCache::getData", "vkGetPipelineCacheData"},
        {"QueryPool::getResults", "vkGetQueryPoolResults"},
        {"Queue::submit", "vkQueueSubmit"},
        {"Queue::submit2", "vkQueueSubmit2"},
        {"Queue::waitIdle", "vkQueueWaitIdle"}};
    if (name.starts_with("vk::")) name.remove_prefix(4);
    if (const auto other = others.find(name); other != others.end()) return std::string(other->second);
    const std::size_t member = name.rfind("::");
    if (member == name.npos) return std::string(name);
    name.remove_prefix(member + 2);
    return fmt::format("vk{}{}", char(std::toupper(static_cast<unsigned char>(name.front()))),
                       name.substr(1));
}

std::string message_of(const vk::SystemError& error) {
    const std::string_view told = error.what(); // the function, a colon and a space, the result
    const std::size_t end = told.rfind(": ");
    return end == told.npos ? std::string(told)
                            : fmt::format("{}{}", command_name(told.substr(0, end)), told.substr(end));
}

} // namespace towers::vulkan
