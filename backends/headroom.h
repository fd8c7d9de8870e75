// Room in this process's address space, if that is limited (ulimit -v).
#pragma once

#include <cstddef>
#include <string_view>

namespace towers {

constexpr std::size_t thread_stack = std::size_t(8) << 20;  ///< where the user has set none
constexpr std::size_t thread_heap = std::size_t(128) << 20; ///< what malloc sets aside when a thread starts

/// Throws DeviceError when fewer than `bytes` are left. Software Vulkan drivers, oneDNN and OpenMP do not
/// report that they get no memory: they crash or end the program. So the program stops while it can still say
/// why.
void require_headroom(std::string_view device, std::size_t bytes);

} // namespace towers
