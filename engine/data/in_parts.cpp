#include "engine/data/in_parts.h"

#include "backends/backend.h"
#include "backends/headroom.h"

#include <algorithm>
#include <future>
#include <system_error>
#include <vector>

namespace towers {

void in_parts(std::size_t count, std::size_t least,
              const std::function<void(std::size_t, std::size_t)>& part) {
    constexpr std::size_t most = 16;
    const std::size_t threads = std::clamp(count / std::max<std::size_t>(least, 1), std::size_t(1),
                                           std::min<std::size_t>(most, cpu_threads(0)));
    const auto run = [&](std::size_t i) { part(count * i / threads, count * (i + 1) / threads); };
    std::vector<std::future<void>> others; // if a part fails, their destructors wait
    std::size_t started = 1;
    try {
        for (; started < threads; ++started) others.push_back(start_task([&run, i = started] { run(i); }));
    } catch (const std::system_error&) { // such as under a limit on memory or on threads
    }
    run(0);
    for (; started < threads; ++started) run(started);
    for (std::future<void>& each : others) each.get();
}

} // namespace towers
