// Every shader's SPIR-V, made by cmake/Shaders.cmake.
#pragma once

#include <cstdint>

namespace towers::vulkan {

#include "spirv.inc"

} // namespace towers::vulkan
