// How a driver, layer or runtime for tests fails.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>

namespace towers::test {

/// `how`: `abort`, `crash`, `exit`, `hang` (for ever) or `slow=MILLISECONDS`. Returns false for any other
/// text, which names what the call shall return.
inline bool misbehave(const std::string& how) {
    const std::string slow = "slow=";
    if (how == "abort") std::abort();
    if (how == "crash") std::raise(SIGSEGV);
    if (how == "exit") std::exit(0);
    if (how == "hang") {
        if (alarm(1) == 0) alarm(0); // shortens a time limit, if one is set, for the tests
        while (true) pause();
    }
    if (!how.starts_with(slow)) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoul(how.substr(slow.size()))));
    return true;
}

} // namespace towers::test
