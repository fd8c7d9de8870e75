#include "backends/headroom.h"

#include "backends/device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace towers {

void require_headroom(std::string_view device, std::size_t bytes) {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        throw DeviceError(fmt::format(
            "{}: less than {} KiB are left of the {} KiB of memory that this process may use (ulimit -v), "
            "too little for the driver and threads; raise the limit or try a smaller --batch",
            device, bytes >> 10, limit.rlim_cur >> 10));
    munmap(room, bytes);
}

} // namespace towers
