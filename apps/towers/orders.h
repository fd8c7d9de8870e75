// What signals order a program that trains to do.
#pragma once

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace towers {

struct Orders {
    std::atomic<bool> stop = false; ///< to end the run; one of another rank tells rank 0
    std::atomic<bool> term = false; ///< SIGTERM has come
};

extern Orders own_orders; ///< of this process

/// From now on these signals set `own_orders`, unless they are ignored. A second SIGINT or SIGTERM of the user
/// ends the program at once.
void stop_on_signals(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR2});

} // namespace towers
