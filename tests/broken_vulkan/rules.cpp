#include "tests/broken_vulkan/rules.h"

#include "tests/support/misbehave_vulkan.h"
#include "tests/support/rules.h"

namespace towers::test {
namespace {

#define TOWERS_CALL(name) #name,
constexpr const char* commands[] = {
#include "commands.inc"
    "vkCreateInstance", "vkNegotiateLoaderLayerInterfaceVersion"};
#undef TOWERS_CALL

bool is_known(const std::string& subject) {
    return !subject.starts_with("vk") || std::ranges::any_of(commands, [&](const char* command) {
        return fnmatch(subject.c_str(), command, 0) == 0;
    });
}

Rules& rules() {
    static auto& all = *new Rules("TOWERS_BROKEN_VULKAN", is_known); // used until the program ends
    return all;
}

} // namespace

VkResult disturb(const std::string& call, const std::string& device) {
    for (const std::string& how : rules().now(call, device))
        if (const VkResult result = misbehave_as_vulkan(how); result != VK_SUCCESS) return result;
    return VK_SUCCESS;
}

std::optional<std::string> value_of(const std::string& ability, const std::string& device) {
    return rules().value_of(ability, device);
}

unsigned long long number(const std::string& text) {
    char* unit = nullptr;
    const unsigned long long number = std::strtoull(text.c_str(), &unit, 0);
    switch (*unit) {
    case 'K':
        return number << 10;
    case 'M':
        return number << 20;
    case 'G':
        return number << 30;
    default:
        return number;
    }
}

} // namespace towers::test
