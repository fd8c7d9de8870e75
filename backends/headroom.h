// The host's memory that this process can still have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace towers {

constexpr std::size_t thread_stack = std::size_t(8) << 20;  ///< where the user has set none
constexpr std::size_t thread_heap = std::size_t(128) << 20; ///< what malloc sets aside when a thread starts

/// Bytes that the system has left for this process: of its memory and of what the process may use.
/// UINT64_MAX: it does not tell.
std::uint64_t available_memory();

/// Throws OutOfMemory when fewer than `bytes` of the process's address space are left, if that is limited
/// (ulimit -v). Software Vulkan drivers, oneDNN and OpenMP do not
/// report that they get no memory: they crash or end the program. So the program stops while it can still say
/// why.
void require_headroom(std::string_view device, std::size_t bytes);

} // namespace towers
