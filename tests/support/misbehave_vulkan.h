// How a Vulkan driver or layer for tests fails.
#pragma once

#include "tests/support/misbehave.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vulkan/vulkan.h>

namespace towers::test {

/// By name or number; ends the program for another text.
inline VkResult result_named(const std::string& text) {
#define TOWERS_RESULT(name)                                                                                  \
    if (text == #name) return name
    TOWERS_RESULT(VK_NOT_READY);
    TOWERS_RESULT(VK_TIMEOUT);
    TOWERS_RESULT(VK_INCOMPLETE);
    TOWERS_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY);
    TOWERS_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    TOWERS_RESULT(VK_ERROR_INITIALIZATION_FAILED);
    TOWERS_RESULT(VK_ERROR_DEVICE_LOST);
    TOWERS_RESULT(VK_ERROR_MEMORY_MAP_FAILED);
    TOWERS_RESULT(VK_ERROR_LAYER_NOT_PRESENT);
    TOWERS_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT);
    TOWERS_RESULT(VK_ERROR_FEATURE_NOT_PRESENT);
    TOWERS_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER);
    TOWERS_RESULT(VK_ERROR_TOO_MANY_OBJECTS);
    TOWERS_RESULT(VK_ERROR_FRAGMENTED_POOL);
    TOWERS_RESULT(VK_ERROR_UNKNOWN);
#undef TOWERS_RESULT
    char* end = nullptr;
    const long number = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') {
        std::fprintf(stderr, "'%s' is no VkResult\n", text.c_str());
        std::abort();
    }
    return VkResult(number);
}

/// Does what misbehave() knows, or returns the VkResult that `how` names.
inline VkResult misbehave_as_vulkan(const std::string& how) {
    return misbehave(how) ? VK_SUCCESS : result_named(how);
}

} // namespace towers::test
