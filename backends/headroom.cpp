#include "backends/headroom.h"

#include "backends/device.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>

namespace towers {
namespace {

/// The bytes that a line `NAME: KIB kB` gives; UINT64_MAX if there is no such line.
std::uint64_t read_bytes(const char* file, std::string_view name) {
    std::ifstream lines(file);
    for (std::string word; lines >> word; lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
        std::uint64_t kib = 0;
        if (word == name && lines >> kib) return kib << 10;
    }
    return UINT64_MAX;
}

} // namespace

std::uint64_t available_memory() {
    const std::uint64_t available = read_bytes("/proc/meminfo", "MemAvailable:");
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return available;
    const std::uint64_t used = read_bytes("/proc/self/status", "VmSize:");
    return std::min<std::uint64_t>(available, limit.rlim_cur - std::min<std::uint64_t>(used, limit.rlim_cur));
}

void require_headroom(std::string_view device, std::size_t bytes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        throw OutOfMemory(fmt::format(
            "{}: less than {} KiB are left of the {} KiB of memory that this process may use (ulimit -v), "
            "too little for the driver and threads; raise the limit",
            device, bytes >> 10, limit.rlim_cur >> 10));
    munmap(room, bytes);
}

} // namespace towers
