// Preload this library into a program: its wall clock then says 1969-12-31 20:34:14.750000 UTC, as a board
// without a battery may.
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
    if (clock != CLOCK_REALTIME) return int(syscall(SYS_clock_gettime, clock, time));
    *time = {-12346, 750'000'000};
    return 0;
}
