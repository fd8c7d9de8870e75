// Denormal numbers count as zero on every thread that computes, and on no other.
#include "backends/denormals.h"

#include "backends/backend.h"

#include <doctest/doctest.h>
#include <functional>
#include <thread>
#include <vector>

namespace towers {
namespace {

/// Which threads of the calling thread's team flush.
std::vector<char> flushing_of_team(unsigned threads) {
    std::vector<char> flushing(threads);
#pragma omp parallel for schedule(static, 1) num_threads(int(threads))
    for (unsigned i = 0; i < threads; ++i) flushing[i] = FlushDenormals::now();
    return flushing;
}

/// Only the calling thread computes something else afterwards.
std::vector<char> all_but_the_first(unsigned threads) {
    std::vector<char> expected(threads, true);
    expected[0] = false;
    return expected;
}

void run(unsigned threads, const std::function<Command(const Buffer&)>& command) {
    const auto device = open_device("cpu", {.threads = threads});
    const Buffer memory = device->allocate(64, Memory::staging);
    device->run({{command(memory)}});
}

/// Has the device compute something.
void compute(unsigned threads) {
    run(threads, [](const Buffer& memory) {
        auto* const all = reinterpret_cast<float*>(memory.address());
        return launch(kernels::relu_forward, {.x = {all}, .y = {all}, .count = 16});
    });
}

void copy(unsigned threads) {
    run(threads, [](const Buffer& memory) { return Copy{{&memory, 0, 32}, {&memory, 32, 32}}; });
}

} // namespace

TEST_CASE("within its scope arithmetic takes denormal numbers for zero and gives none") {
    volatile float least = 0x1p-126f, denormal = 0x1p-130f;
    const auto half = [&] { return least * 0.5f; };
    const auto large = [&] { return denormal * 0x1p100f; };
    const auto either = [&] { return half() != 0 || large() != 0; };
    CHECK((half() == 0x1p-127f && large() == 0x1p-30f));
    {
        const FlushDenormals flush;
        CHECK_FALSE(either());
        { const FlushDenormals within; }
        CHECK_FALSE(either());
        std::thread([&] { CHECK_FALSE(either()); }).join();
    }
    CHECK((half() == 0x1p-127f && large() == 0x1p-30f));
}

// The thread sanitizer does not see OpenMP's forks and joins.
#ifndef __SANITIZE_THREAD__
TEST_CASE(
    "every OpenMP thread with which a device computes flushes denormal numbers; its caller's other work "
    "does not") {
    for (const unsigned threads : {1u, 2u, 3u, 8u}) {
        CAPTURE(threads);
        // Threads of their own, so that OpenMP has no team yet
        std::thread([&] { // the device starts the team
            compute(threads);
            CHECK(flushing_of_team(threads) == all_but_the_first(threads));
        })
            .join();
        std::thread([&] { // another part of the program has started it
            CHECK(flushing_of_team(threads) == std::vector<char>(threads, false));
            compute(threads);
            CHECK(flushing_of_team(threads) == all_but_the_first(threads));
        })
            .join();
        std::thread([&] { // a smaller team, and the same one again
            compute(threads);
            flushing_of_team(1);
            flushing_of_team(threads);
            compute(threads);
            CHECK(flushing_of_team(threads) == all_but_the_first(threads));
        })
            .join();
    }
}

TEST_CASE("a device that only copies starts no threads") {
    std::thread([] {
        copy(8);
        CHECK(flushing_of_team(8) == std::vector<char>(8, false)); // they were started just now
    }).join();
}
#endif

} // namespace towers
