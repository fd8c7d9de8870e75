#include "backends/headroom.h"

#include "backends/control_groups.h"
#include "backends/device.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <latch>
#include <limits>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace towers {
namespace {

namespace fs = std::filesystem;

std::uint64_t difference(std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); }

/// The number with which a file begins: `max` is none.
std::optional<std::uint64_t> number_in(const fs::path& file) {
    std::ifstream text(file);
    std::uint64_t number = 0;
    return text >> number ? std::optional(number) : std::nullopt;
}

/// The number after a name: `MemAvailable: 24117248 kB`, `inactive_file 65536`.
std::optional<std::uint64_t> number_after(std::string_view name, const fs::path& file) {
    std::ifstream lines(file);
    for (std::string word; lines >> word; lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
        std::uint64_t number = 0;
        if (word == name && lines >> number) return number;
    }
    return std::nullopt;
}

std::uint64_t physical_memory() {
    return std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE));
}

/// What version 2 and version 1 of control groups tell of a group and those within it.
struct GroupFiles {
    const char* limits[2]; ///< beyond these the kernel ends processes, or lets them crawl
    const char* used;
    const char* spare[3]; ///< lines of memory.stat: what the kernel takes back before that
};
constexpr GroupFiles versions[] = {
    {{"memory.max", "memory.high"}, "memory.current", {"active_file", "inactive_file", "slab_reclaimable"}},
    {{"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}},
};

} // namespace

GroupMemory group_memory(const fs::path& root) {
    GroupMemory least;
    for (const fs::path& group : control_groups(root, "memory"))
        for (const GroupFiles& files : versions)
            for (const char* const name : files.limits) {
                const auto limit = name != nullptr ? number_in(group / name) : std::nullopt;
                if (!limit || *limit >= physical_memory()) continue; // version 1 has a number for no limit
                std::uint64_t used = number_in(group / files.used).value_or(0);
                for (const char* const spare : files.spare)
                    if (spare != nullptr)
                        used = difference(used, number_after(spare, group / "memory.stat").value_or(0));
                least.all = std::min(least.all, *limit);
                least.left = std::min(least.left, difference(*limit, used));
            }
    return least;
}

std::uint64_t host_memory() { return std::min(physical_memory(), group_memory("/").all); }

std::uint64_t available_memory() {
    std::uint64_t available = group_memory("/").left;
    if (const auto kib = number_after("MemAvailable:", "/proc/meminfo"))
        available = std::min(available, *kib << 10);
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return available;
    const std::uint64_t used = number_after("VmSize:", "/proc/self/status").value_or(0) << 10;
    return std::min(available, difference(limit.rlim_cur, used));
}

void require_memory(std::string_view device, std::size_t bytes) {
    constexpr std::size_t little = 1 << 20; // not worth a look
    if (bytes <= little) return;
    const std::uint64_t available = available_memory();
    const std::uint64_t lacking = difference(bytes, available);
    if (lacking == 0 || lacking <= number_after("SwapFree:", "/proc/meminfo").value_or(0) << 10) return;
    constexpr double mib = 1 << 20;
    throw OutOfMemory(fmt::format("{}: {:.1f} MiB of memory are needed and {:.1f} MiB can be had", device,
                                  double(bytes) / mib, double(available) / mib));
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

void require_threads(std::string_view device, unsigned count) {
    std::latch end(1);
    std::vector<pid_t> ids(count, 0);
    std::vector<std::jthread> threads; // all at once
    bool refused = false;
    try {
        while (threads.size() < count)
            threads.emplace_back([&, i = threads.size()] {
                ids[i] = gettid();
                end.wait();
            });
    } catch (const std::system_error&) {
        refused = true;
    }
    const std::size_t got = threads.size();
    end.count_down();
    threads.clear();
    // A thread counts until the system has cleared it away, a little after it was joined.
    for (std::size_t i = 0; i < got; ++i)
        while (tgkill(getpid(), ids[i], 0) == 0) std::this_thread::yield();
    if (refused)
        throw DeviceError(fmt::format("{}: {} of {} threads: {}", device, got, count, no_more_threads));
}

} // namespace towers
