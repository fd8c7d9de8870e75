// What signals order a program that trains to do.
#pragma once

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace towers {

struct Orders {
    /// The user wants to end the run, perhaps on another rank: rank 0 learns of it.
    std::atomic<bool> stop = false;
    std::atomic<bool> term = false; ///< SIGTERM has come
};

extern Orders own_orders; ///< of this process

/// From now on these signals set `own_orders`, unless they are ignored. A second SIGINT or SIGTERM of the
/// user ends the program at once.
void stop_on_signals(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR2});

} // namespace towers
