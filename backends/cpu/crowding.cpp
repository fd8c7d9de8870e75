#include "backends/cpu/crowding.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <omp.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace towers {
namespace {

constexpr double window = 0.5;     // seconds of work per judgement
constexpr double much = 0.25;      // the part of them from which waiting counts as much
constexpr double long_enough = 10; // seconds of that in a row: short disturbances do not concern the user

} // namespace

bool Crowding::worked(double seconds) {
    seconds_ += seconds;
    return !told_ && seconds_ >= window;
}

std::optional<double> Crowding::judge(double waited) {
    const double seconds = std::exchange(seconds_, 0);
    if (waited < much * seconds) {
        crowded_seconds_ = crowded_waited_ = 0;
        return {};
    }
    crowded_seconds_ += seconds;
    crowded_waited_ += waited;
    if (told_ || crowded_seconds_ < long_enough) return {};
    told_ = true;
    return crowded_waited_ / crowded_seconds_;
}

bool ThreadWaits::are_known() { return std::ifstream("/proc/self/schedstat").is_open(); }

double ThreadWaits::longest(unsigned threads) {
    std::vector<int> team(threads, gettid());
#pragma omp parallel num_threads(int(threads))
    team[std::size_t(omp_get_thread_num())] = gettid();
    std::map<int, double> now;
    double longest = 0;
    for (const int thread : team) {
        // Nanoseconds of running, nanoseconds of waiting, time slices
        std::ifstream text(fmt::format("/proc/self/task/{}/schedstat", thread));
        double running = 0, waiting = 0;
        if (!(text >> running >> waiting)) continue;
        const double seconds = now[thread] = waiting * 1e-9;
        if (const auto before = waited_.find(thread); before != waited_.end())
            longest = std::max(longest, seconds - before->second);
    }
    waited_ = std::move(now);
    return longest;
}

} // namespace towers
