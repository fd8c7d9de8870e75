#include "backends/headroom.h"

#include "backends/control_groups.h"
#include "backends/device.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <latch>
#include <limits>
#include <optional>
#include <span>
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

/// The number with which a folder's file begins: `max` is none. Without a name, none.
std::optional<std::uint64_t> number_in(const fs::path& folder, const char* name) {
    if (name == nullptr) return std::nullopt;
    std::ifstream text(folder / name);
    std::uint64_t number = 0;
    return text >> number ? std::optional(number) : std::nullopt;
}

/// The sum of the numbers after these names: `MemAvailable: 24117248 kB`, `inactive_file 65536`.
std::optional<std::uint64_t> sum_after(std::span<const std::string_view> names, const fs::path& file) {
    std::optional<std::uint64_t> sum;
    std::ifstream lines(file);
    for (std::string word; lines >> word; lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
        std::uint64_t number = 0;
        if (std::ranges::find(names, word) != names.end() && lines >> number) sum = sum.value_or(0) + number;
    }
    return sum;
}

std::optional<std::uint64_t> kib_after(std::string_view name, const fs::path& file) {
    const std::optional<std::uint64_t> kib = sum_after({&name, 1}, file);
    return kib ? std::optional(*kib << 10) : std::nullopt;
}

std::uint64_t physical_memory() {
    static const std::uint64_t bytes =
        std::uint64_t(sysconf(_SC_PHYS_PAGES)) * std::uint64_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

/// A limit, and how much of it is used
struct LimitFiles {
    const char *limit = nullptr, *used = nullptr;
};

/// What a version of control groups tells of a group and those within it.
struct GroupFiles {
    const char* limits[2]; ///< beyond these the kernel ends processes, or lets them crawl
    const char* used;
    std::string_view spare[3]; ///< lines of memory.stat: what the kernel takes back before that
    LimitFiles swap;
    LimitFiles with_swap; ///< memory and swap together; never without the first limit
};
constexpr GroupFiles versions[] = {
    {.limits = {"memory.limit_in_bytes"},
     .used = "memory.usage_in_bytes",
     .spare = {"total_active_file", "total_inactive_file"},
     .swap = {},
     .with_swap = {"memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"}},
    {.limits = {"memory.max", "memory.high"},
     .used = "memory.current",
     .spare = {"active_file", "inactive_file", "slab_reclaimable"},
     .swap = {"memory.swap.max", "memory.swap.current"},
     .with_swap = {}},
};

/// What is left of a limit, where `spare` of what is used does not count.
std::uint64_t left_of(const fs::path& group, std::uint64_t limit, const char* used, std::uint64_t spare) {
    return difference(limit, difference(number_in(group, used).value_or(0), spare));
}

/// Those that are there
std::vector<ControlGroup> memory_groups(const fs::path& root) {
    std::vector<ControlGroup> groups = control_groups(root, "memory");
    std::erase_if(groups, [](const ControlGroup& group) {
        std::error_code error;
        return !fs::is_directory(group.folder, error);
    });
    return groups;
}

GroupMemory memory_of(std::span<const ControlGroup> groups, const fs::path& root) {
    GroupMemory least;
    std::uint64_t swap = UINT64_MAX;
    for (const auto& [folder, version] : groups) {
        const GroupFiles& files = versions[version - 1];
        if (const auto limit = number_in(folder, files.swap.limit))
            swap = std::min(swap, left_of(folder, *limit, files.swap.used, 0));
        std::uint64_t limit = UINT64_MAX;
        for (const char* const name : files.limits)
            limit = std::min(limit, number_in(folder, name).value_or(limit));
        if (limit >= physical_memory()) continue; // version 1 has a number for no limit
        const std::uint64_t spare = sum_after(files.spare, folder / "memory.stat").value_or(0);
        least.all = std::min(least.all, limit);
        least.left = std::min(least.left, left_of(folder, limit, files.used, spare));
        if (const auto both = number_in(folder, files.with_swap.limit))
            least.with_swap = std::min(least.with_swap, left_of(folder, *both, files.with_swap.used, spare));
    }
    if (least.left == UINT64_MAX) return least;
    swap = std::min(swap, kib_after("SwapFree:", root / "proc/meminfo").value_or(0));
    least.with_swap = std::min(least.with_swap, least.left + swap);
    return least;
}

/// This process's. Its limits may change while it runs, but hardly its groups, for which many places must be
/// looked at.
GroupMemory group_memory() {
    static const std::vector<ControlGroup> groups = memory_groups("/");
    return memory_of(groups, "/");
}

/// The limit of the process's address space
std::optional<std::uint64_t> address_space() {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return limit.rlim_cur;
}

std::uint64_t left_address_space() {
    const std::optional<std::uint64_t> all = address_space();
    return all ? difference(*all, kib_after("VmSize:", "/proc/self/status").value_or(0)) : UINT64_MAX;
}

} // namespace

GroupMemory group_memory(const fs::path& root) { return memory_of(memory_groups(root), root); }

std::uint64_t host_memory() { return std::min(physical_memory(), group_memory().all); }

std::uint64_t available_memory() {
    std::uint64_t available = group_memory().left;
    available = std::min(available, kib_after("MemAvailable:", "/proc/meminfo").value_or(available));
    return std::min(available, left_address_space());
}

void require_memory(std::string_view device, std::size_t bytes) {
    constexpr std::size_t little = 1 << 20; // not worth a look
    if (bytes <= little) return;
    const std::uint64_t allowed = std::min(group_memory().with_swap, left_address_space());
    if (bytes <= allowed) return;
    constexpr double mib = 1 << 20;
    throw OutOfMemory(fmt::format("{}: {:.1f} MiB of memory are needed and {:.1f} MiB can be had", device,
                                  double(bytes) / mib, double(allowed) / mib));
}

void require_headroom(std::string_view device, std::size_t bytes) {
    const std::optional<std::uint64_t> limit = address_space();
    if (!limit) return;
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        throw OutOfMemory(fmt::format(
            "{}: less than {} KiB are left of the {} KiB of memory that this process may use (ulimit -v), "
            "too little for the driver and threads; raise the limit",
            device, bytes >> 10, *limit >> 10));
    munmap(room, bytes);
}

std::string no_more_threads() {
    return fmt::format("no more threads can be had (ulimit -u, or a container's pids.max{}); raise the limit "
                       "or end other programs",
                       address_space() ? ", or ulimit -v" : "");
}

bool thread_can_be_had() {
    try {
        std::thread([] {}).join();
        return true;
    } catch (const std::system_error&) {
        return false;
    }
}

std::mutex& thread_starts() {
    static std::mutex mutex;
    return mutex;
}

void require_threads(std::string_view device, unsigned count) {
    if (count == 0) return;
    require_headroom(device, count * thread_stack); // else the system's error looks like a lack of threads
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
    // A thread counts until the system has cleared it away, a little after it was joined: as soon as it gets
    // a processor, for which it may wait long beside other programs.
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (std::size_t i = 0; i < got; ++i)
        while (tgkill(getpid(), ids[i], 0) == 0 && std::chrono::steady_clock::now() < soon)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (refused)
        throw DeviceError(fmt::format("{}: {} of {} threads: {}", device, got, count, no_more_threads()));
}

} // namespace towers
