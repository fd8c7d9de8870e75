// How many threads the CPU backend uses, and how long they wait.
#include "backends/cpu/crowding.h"
#include "backends/cpu/quota.h"
#include "tests/support/devices.h"
#include "tests/support/files.h"

#include <cmath>
#include <ctime>
#include <doctest/doctest.h>
#include <optional>
#include <sched.h>
#include <string>
#include <thread>
#include <utility>

namespace towers {
namespace {

/// Works for so long, in steps of 0.1 s, in which the threads wait so much. What is told, if anything.
std::optional<double> work(Crowding& crowding, double seconds, double part) {
    std::optional<double> told;
    double waited = 0;
    for (int i = 0; i < int(std::lround(10 * seconds)); ++i) {
        waited += 0.1 * part;
        if (!crowding.worked(0.1)) continue;
        if (const auto found = crowding.judge(std::exchange(waited, 0))) {
            CHECK_FALSE(told);
            told = found;
        }
    }
    return told;
}

/// For how long this thread has had a processor.
[[maybe_unused]] double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

} // namespace

TEST_CASE("threads that wait for processors for long are told of once") {
    Crowding crowding;
    CHECK_FALSE(work(crowding, 100, 0.1));
    CHECK_FALSE(work(crowding, 9, 0.5));
    CHECK_FALSE(work(crowding, 1, 0));
    CHECK_FALSE(work(crowding, 9, 0.5));
    CHECK(work(crowding, 2, 0.5).value() == doctest::Approx(0.5));
    CHECK_FALSE(work(crowding, 100, 0.5));
}

// The thread sanitizer does not see OpenMP's forks and joins.
#ifndef __SANITIZE_THREAD__
TEST_CASE("threads of one team on one processor wait, also when OpenMP replaces some") {
    if (!ThreadWaits::are_known()) {
        MESSAGE("SKIPPED: Linux does not tell how long threads wait");
        return;
    }
    // Until each thread has had a processor for so long: while one has it, the others wait.
    const auto spin = [](int threads, double seconds) {
#pragma omp parallel num_threads(threads)
        for (const double begin = processor_seconds(); processor_seconds() - begin < seconds;) {
        }
    };
    cpu_set_t all, one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    // A thread of its own: its team is born on its processors.
    std::thread([&] {
        REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
        ThreadWaits waits;
        CHECK(waits.longest(3) == 0); // nothing is known of them yet
        spin(3, 0.03);
        CHECK(waits.longest(3) > 0.03); // about 0.06, more on a busy machine
        spin(2, 0.01);                  // ends the third
        waits.longest(3);
        spin(3, 0.03);
        CHECK(waits.longest(3) > 0.03);
    }).join();
}
#endif

TEST_CASE("the quota of a control group limits the threads") {
    const test::TemporaryFolder root;
    const auto file = [&](const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root / path).parent_path());
        test::write_text(root / path, text);
    };
    CHECK_FALSE(processor_quota(root.path()));
    file("proc/self/cgroup", "0::/\n");
    CHECK_FALSE(processor_quota(root.path()));
    file("sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK_FALSE(processor_quota(root.path()));
    file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(processor_quota(root.path()) == 1.5);
    // The least of a group and those around it
    file("proc/self/cgroup", "0::/user.slice/build.scope\n");
    file("sys/fs/cgroup/user.slice/build.scope/cpu.max", "200000 100000\n");
    CHECK(processor_quota(root.path()) == 1.5);
    file("sys/fs/cgroup/user.slice/build.scope/cpu.max", "25000 50000\n");
    CHECK(processor_quota(root.path()) == 0.5);
    for (const char* const odd : {"", "many of them\n", "-1 100000\n", "100000\n", "100000 0\n"}) {
        file("sys/fs/cgroup/user.slice/build.scope/cpu.max", odd);
        CHECK(processor_quota(root.path()) == 1.5);
    }
}

TEST_CASE("the quota of a control group of version 1 limits the threads too") {
    const test::TemporaryFolder root;
    const auto file = [&](const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root / path).parent_path());
        test::write_text(root / path, text);
    };
    file("proc/self/cgroup", "9:memory:/docker/1f0c\n4:cpu,cpuacct:/docker/1f0c\n0::/\nodd\n");
    file("sys/fs/cgroup/cpu,cpuacct/docker/1f0c/cpu.cfs_quota_us", "-1\n");
    file("sys/fs/cgroup/cpu,cpuacct/docker/1f0c/cpu.cfs_period_us", "100000\n");
    CHECK_FALSE(processor_quota(root.path()));
    file("sys/fs/cgroup/cpu,cpuacct/docker/1f0c/cpu.cfs_quota_us", "320000\n");
    CHECK(processor_quota(root.path()) == 3.2);
    // Within a container only its own group shows, as the root.
    file("proc/self/cgroup", "4:cpu:/kubepods/pod7/1f0c\n");
    file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(processor_quota(root.path()) == 0.5);
    file("proc/self/cgroup", "4:cpuset:/\n");
    CHECK_FALSE(processor_quota(root.path()));
}

TEST_CASE("a quota is rounded to threads, at least one and no more than processors") {
    CHECK(threads_within(8, std::nullopt) == 8);
    CHECK(threads_within(8, 100.0) == 8);
    CHECK(threads_within(8, 3.2) == 3);
    CHECK(threads_within(8, 1.5) == 2);
    CHECK(threads_within(8, 0.1) == 1);
    CHECK(threads_within(1, 1.5) == 1);
}

} // namespace towers
