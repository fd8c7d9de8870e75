// Room in this process's address space, where there is a limit on it (ulimit -v).
#pragma once

#include <cstddef>
#include <string_view>

namespace towers {

constexpr std::size_t thread_stack = std::size_t(8) << 20;  ///< where the user has set none
constexpr std::size_t thread_heap = std::size_t(128) << 20; ///< what malloc sets aside when a thread begins

/// Throws DeviceError when fewer than `bytes` are left. Vulkan drivers in software, oneDNN and OpenMP do not
/// say when memory is refused to them: they crash, or end the program. So it stops while it can still say
/// why.
void require_headroom(std::string_view device, std::size_t bytes);

} // namespace towers
