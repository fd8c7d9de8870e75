// The host memory that this process can still get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace towers {

constexpr std::size_t thread_stack = std::size_t(8) << 20;  ///< where the user has set none
constexpr std::size_t thread_heap = std::size_t(128) << 20; ///< what malloc sets aside when a thread starts

/// What the control groups of this process, and those around them, allow of memory in bytes (`memory.max` and
/// `memory.high` of version 2, `memory.limit_in_bytes` of version 1). Pages of files count as left, as in the
/// system's own figure, because the kernel takes them back. `root`: of the file system, in which /proc and
/// /sys lie.
struct GroupMemory {
    std::uint64_t all = UINT64_MAX;  ///< the smallest limit; UINT64_MAX if there is none
    std::uint64_t left = UINT64_MAX; ///< the least that is left of one
    /// The same if the kernel swaps, as far as the groups allow it and there is room (`SwapFree`)
    std::uint64_t with_swap = UINT64_MAX;
};
GroupMemory group_memory(const std::filesystem::path& root);

/// The bytes of memory that this machine has and the process's control groups allow.
std::uint64_t host_memory();

/// The bytes that this process can still get, by the system's free memory, the process's control groups and
/// its limits. UINT64_MAX if the system does not tell.
std::uint64_t available_memory();

/// Throws OutOfMemory if this process's control groups or limits do not allow so many bytes more, also by
/// swapping. Linux gives them out nevertheless, and ends the process when they are used. The system's free
/// memory does not count, because it leaves out what some file systems' caches would give back.
void require_memory(std::string_view device, std::size_t bytes);

/// Throws OutOfMemory if the process's address space is limited (ulimit -v) and fewer than `bytes` are left.
/// Without memory, software Vulkan drivers, oneDNN and OpenMP crash or end the program without a report; this
/// stops while the program can still say why.
void require_headroom(std::string_view device, std::size_t bytes);

/// Why no thread can be started, and what to do.
std::string no_more_threads();

/// Whether the system gives one more thread.
bool thread_can_be_had();

/// Throws DeviceError if the system does not give so many threads beside those that run, or OutOfMemory if
/// there is no room for their stacks. Software Vulkan drivers and OpenMP end the program, or fail without
/// saying why, if they get none.
void require_threads(std::string_view device, unsigned count);

/// What `exit` calls, if it is set, before it destroys static objects that were there when the last team of
/// threads started, which still use them: OpenMP's library calls `exit` if it gets no thread.
inline void (*at_forced_exit)() = nullptr;

/// Held while a thread starts that does the towers' work. Who calls `require_threads` holds it, and longer if
/// a library then starts the threads, because a limit counts those of the whole program.
std::mutex& thread_starts();

/// A thread that does this work, started while no library starts any
template<class Work>
std::jthread start_thread(Work&& work) {
    const std::lock_guard lock(thread_starts());
    return std::jthread(std::forward<Work>(work));
}

/// The same for work that ends by itself. Its failure is the future's.
template<class Work>
std::future<void> start_task(Work&& work) {
    const std::lock_guard lock(thread_starts());
    return std::async(std::launch::async, std::forward<Work>(work));
}

} // namespace towers
