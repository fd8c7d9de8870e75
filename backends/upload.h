// Copies data between the host and a device's memory, once.
#pragma once

#include "backends/device.h"

#include <cstddef>
#include <span>

namespace towers {

/// How many bytes to bring to a device at once, so that staging memory stays small.
constexpr std::size_t staging_bytes = std::size_t(8) << 20;

/// Copies to the buffer's beginning, through a staging buffer of bounded size.
void upload(Device& device, const Buffer& target, std::span<const std::byte> data);

/// Copies from the buffer's beginning.
void download(Device& device, const Buffer& source, std::span<std::byte> data);

} // namespace towers
