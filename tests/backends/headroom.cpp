// How much memory control groups leave to the process.
#include "backends/headroom.h"
#include "tests/support/files.h"

#include <doctest/doctest.h>
#include <string>

namespace towers {
namespace {

constexpr std::uint64_t mib = 1 << 20, unlimited = UINT64_MAX;

/// A tree of files as /proc and /sys show it.
class Groups {
public:
    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root_ / path).parent_path());
        test::write_text(root_ / path, text);
    }
    void write(const std::string& path, std::uint64_t number) { write(path, std::to_string(number) + '\n'); }
    void check(std::uint64_t all, std::uint64_t left) const {
        const GroupMemory found = group_memory(root_.path());
        CHECK(found.all == all);
        CHECK(found.left == left);
    }
    void check_with_swap(std::uint64_t left) const { CHECK(group_memory(root_.path()).with_swap == left); }

private:
    test::TemporaryFolder root_;
};

} // namespace

TEST_CASE("control groups limit the memory, those around the process's too") {
    Groups groups;
    groups.check(unlimited, unlimited);
    groups.write("proc/self/cgroup", "0::/job/step\n");
    groups.check(unlimited, unlimited);
    const std::string job = "sys/fs/cgroup/job/", step = job + "step/";
    groups.write(step + "memory.max", "max\n");
    groups.write(step + "memory.current", 300 * mib);
    groups.check(unlimited, unlimited);
    groups.write(step + "memory.max", 1024 * mib);
    groups.check(1024 * mib, 724 * mib);
    // Files' pages are taken back before a process is ended, but not shared memory.
    groups.write(step + "memory.stat",
                 "anon 104857600\nfile 209715200\nshmem 104857600\n"
                 "inactive_anon 104857600\ninactive_file 73400320\nactive_file 31457280\n"
                 "slab_reclaimable 1048576\n");
    groups.check(1024 * mib, 825 * mib);
    // A group around it that other processes fill
    groups.write(job + "memory.max", 2048 * mib);
    groups.write(job + "memory.current", 1948 * mib);
    groups.check(1024 * mib, 100 * mib);
    groups.write(job + "memory.current", 2049 * mib);
    groups.check(1024 * mib, 0);
    groups.write(job + "memory.max", 512 * mib);
    groups.write(job + "memory.current", 412 * mib);
    groups.check(512 * mib, 100 * mib);
    // Beyond this one the kernel lets processes crawl.
    groups.write(step + "memory.high", 256 * mib);
    groups.check(256 * mib, 57 * mib);
    for (const char* const odd : {"", "much\n", "-1\n", "max\n"}) {
        groups.write(step + "memory.high", odd);
        groups.check(512 * mib, 100 * mib);
    }
    // A container that shows only its own group, as the root
    groups.write("proc/self/cgroup", "0::/../../elsewhere\n");
    groups.write("sys/fs/cgroup/memory.max", 128 * mib);
    groups.write("sys/fs/cgroup/memory.current", 28 * mib);
    groups.check(128 * mib, 100 * mib);
}

TEST_CASE("control groups of version 1 limit the memory too") {
    Groups groups;
    groups.write("proc/self/cgroup", "9:cpuset:/\n4:memory:/docker/1f0c\n0::/\nodd\n");
    const std::string docker = "sys/fs/cgroup/memory/docker/", group = docker + "1f0c/";
    groups.write(group + "memory.limit_in_bytes", 1024 * mib);
    groups.write(group + "memory.usage_in_bytes", 600 * mib);
    groups.write(
        group + "memory.stat",
        "inactive_file 0\nactive_file 0\ntotal_inactive_file 104857600\ntotal_active_file 104857600\n");
    groups.check(1024 * mib, 624 * mib);
    groups.write(docker + "memory.limit_in_bytes", 512 * mib);
    groups.check(512 * mib, 512 * mib);
    groups.write("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712u); // none
    groups.check(512 * mib, 512 * mib);
    // Within a container, beside controllers of version 2
    groups.write("proc/self/cgroup", "4:memory,hugetlb:/kubepods/pod7/1f0c\n0::/\n");
    groups.write("sys/fs/cgroup/memory,hugetlb/memory.limit_in_bytes", 64 * mib);
    groups.check(64 * mib, 64 * mib);
    groups.write("sys/fs/cgroup/unified/memory.max", 32 * mib);
    groups.check(32 * mib, 32 * mib);
    groups.write("proc/self/cgroup", "4:cpu:/\n");
    groups.check(unlimited, unlimited);
}

TEST_CASE("a group's processes swap as far as the groups allow it and the machine has room") {
    Groups groups;
    groups.write("proc/self/cgroup", "0::/job/step\n");
    groups.write("proc/meminfo", "SwapTotal: 8388608 kB\nSwapFree: 4194304 kB\n");
    groups.check_with_swap(unlimited);
    const std::string job = "sys/fs/cgroup/job/", step = job + "step/";
    groups.write(step + "memory.max", 1024 * mib);
    groups.write(step + "memory.current", 824 * mib);
    groups.check_with_swap((200 + 4096) * mib);
    groups.write(step + "memory.swap.max", "max\n");
    groups.check_with_swap((200 + 4096) * mib);
    groups.write(step + "memory.swap.max", 512 * mib);
    groups.check_with_swap((200 + 512) * mib);
    groups.write(step + "memory.swap.current", 112 * mib);
    groups.check_with_swap((200 + 400) * mib);
    groups.write("proc/meminfo", "SwapFree: 102400 kB\n");
    groups.check_with_swap((200 + 100) * mib);
    groups.write(job + "memory.swap.max", 0); // and no limit of memory
    groups.write(job + "memory.swap.current", 0);
    groups.check_with_swap(200 * mib);
    groups.check(1024 * mib, 200 * mib);
}

TEST_CASE("a group of version 1 limits memory and swap together") {
    Groups groups;
    groups.write("proc/self/cgroup", "4:memory:/docker/1f0c\n");
    groups.write("proc/meminfo", "SwapFree: 4194304 kB\n");
    const std::string docker = "sys/fs/cgroup/memory/docker/", group = docker + "1f0c/";
    groups.write(group + "memory.limit_in_bytes", 1024 * mib);
    groups.write(group + "memory.usage_in_bytes", 600 * mib);
    groups.write(group + "memory.stat", "total_inactive_file 104857600\n");
    groups.check_with_swap((524 + 4096) * mib); // the kernel may not count swap
    groups.write(group + "memory.memsw.limit_in_bytes", 9223372036854771712u);
    groups.write(group + "memory.memsw.usage_in_bytes", 600 * mib);
    groups.check_with_swap((524 + 4096) * mib);
    groups.write(group + "memory.memsw.limit_in_bytes", 1024 * mib); // Docker's --memory-swap: none
    groups.check_with_swap(524 * mib);
    groups.write(group + "memory.memsw.limit_in_bytes", 2048 * mib);
    groups.write(group + "memory.memsw.usage_in_bytes", 900 * mib);
    groups.check_with_swap(1248 * mib);
    groups.write(docker + "memory.limit_in_bytes", 1200 * mib);
    groups.write(docker + "memory.memsw.limit_in_bytes", 1200 * mib);
    groups.write(docker + "memory.memsw.usage_in_bytes", 1000 * mib);
    groups.check_with_swap(200 * mib);
    groups.check(1024 * mib, 524 * mib);
}

TEST_CASE("memory is not refused because little is free, which caches may give back") {
    const std::uint64_t more = available_memory() + 1024 * mib;
    if (group_memory("/").with_swap < more) {
        MESSAGE("SKIPPED: a control group limits the memory");
        return;
    }
    CHECK_NOTHROW(require_memory("cpu", more));
}

} // namespace towers
