// The host memory that this process can still get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace towers {

constexpr std::size_t thread_stack = std::size_t(8) << 20;  ///< where the user has set none
constexpr std::size_t thread_heap = std::size_t(128) << 20; ///< what malloc sets aside when a thread starts

/// The bytes that this process can still get, by the system's free memory and the process's limits.
/// UINT64_MAX if the system does not tell.
std::uint64_t available_memory();

/// Throws OutOfMemory if the process's address space is limited (ulimit -v) and fewer than `bytes` are left.
/// Without memory, software Vulkan drivers, oneDNN and OpenMP crash or end the program without a report; this
/// stops while the program can still say why.
void require_headroom(std::string_view device, std::size_t bytes);

} // namespace towers
