#include "backends/cpu/host_memory.h"

#include "backends/backend.h"

#include <csignal>
#include <doctest/doctest.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace towers {
namespace {

/// The signal that ends a process which does this; 0: it ends by itself.
int signal_of(const std::function<void()>& function) {
    const pid_t child = fork();
    if (child == 0) {
        for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL); // not doctest's
        close(STDERR_FILENO);
        function();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

} // namespace

TEST_CASE("guards tell what is written beside a CPU device's memory, wherever") {
    for (const std::size_t bytes : {1u, 100u, 256u, 70000u}) {
        INFO(bytes, " bytes");
        const auto written_at = [&](std::ptrdiff_t place) {
            return signal_of([&] {
                const HostMemory memory("cpu", bytes, true);
                memory.data()[place] = std::byte{1};
            });
        };
        const auto end = std::ptrdiff_t(bytes), behind = (end + 255) / 256 * 256;
        CHECK(written_at(0) == 0);
        CHECK(written_at(end - 1) == 0);
        CHECK(written_at(-1) == SIGABRT);
        if (behind != end) CHECK(written_at(end) == SIGABRT);
        CHECK(written_at(behind) == SIGSEGV);
        CHECK(written_at(behind + 200000) == SIGSEGV);
        CHECK(written_at(-200000) == SIGSEGV);
    }
    const HostMemory plain("cpu", 100, false);
    plain.require_intact();
}

TEST_CASE("a CPU device's memory has guards if a test asks for them") {
    CHECK(signal_of([] {
              const auto device = open_device("cpu", {.guarded = true});
              const Buffer buffer = device->allocate(512, Memory::staging);
              buffer.host<std::byte>().data()[512] = std::byte{1};
          }) == SIGSEGV);
}

} // namespace towers
