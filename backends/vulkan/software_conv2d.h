// Convolutions for drivers that run on a CPU: the host side of shaders/software/.
#pragma once

#include "backends/vulkan/dispatch.h"

namespace towers::vulkan {

/// Not for strides, dilation and groups above 1, nor for more tiles than one dispatch takes.
std::optional<LaunchConfig> software_conv2d_config(const Launch& launch, const DeviceFacts& facts);
Dispatch software_conv2d(const Launch& launch, const LaunchConfig& config, const DeviceFacts& facts);

} // namespace towers::vulkan
