#include "apps/towers/orders.h"

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace towers {

Orders own_orders;

namespace {

std::atomic<std::int64_t> first_order = 0;   ///< when SIGINT or SIGTERM came first, in ms
std::atomic<std::int64_t> same_order_ms = 0; ///< a signal so soon after it is no other order

/// The first signal requests a clean end; a user's second one ends the program at once. A closing terminal
/// may send several signals, a closed pipe one per line, and Slurm two SIGTERMs at a time limit.
void request_stop(int signal) {
    own_orders.stop = true;
    if (signal == SIGTERM) own_orders.term = true;
    if (signal != SIGINT && signal != SIGTERM) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t ms = std::int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
    std::int64_t first = 0;
    if (first_order.compare_exchange_strong(first, ms) || ms - first < same_order_ms) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal); // it comes when this function returns
}

} // namespace

void stop_on_signals(std::initializer_list<int> signals) {
    if (std::getenv("SLURM_JOB_ID") != nullptr) same_order_ms = 1000;
    for (const int signal : signals) {
        struct sigaction before {};
        // Ignored signals stay ignored: nohup ignores SIGHUP, and a shell SIGINT of background jobs.
        if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
            std::signal(signal, request_stop);
    }
}

} // namespace towers
