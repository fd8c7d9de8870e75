#include "engine/data/in_parts.h"

#include "backends/backend.h"

#include <algorithm>
#include <future>
#include <vector>

namespace towers {

void in_parts(std::size_t count, std::size_t least,
              const std::function<void(std::size_t, std::size_t)>& part) {
    constexpr std::size_t most = 16;
    const std::size_t threads = std::clamp(count / std::max<std::size_t>(least, 1), std::size_t(1),
                                           std::min<std::size_t>(most, cpu_threads(0)));
    const auto run = [&](std::size_t i) { part(count * i / threads, count * (i + 1) / threads); };
    std::vector<std::future<void>> others; // if a part fails, their destructors wait
    for (std::size_t i = 1; i < threads; ++i) others.push_back(std::async(std::launch::async, run, i));
    run(0);
    for (std::future<void>& each : others) each.get();
}

} // namespace towers
