// A race of two towers' threads. The thread sanitizer must report it, with the options that the tests run
// under.
#include "engine/towers/worker.h"

#include <future>

int main() {
    int sum = 0;
    towers::Worker one, other;
    const std::future<void> first = one.run([&] { ++sum; }), second = other.run([&] { ++sum; });
    first.wait();
    second.wait();
    return sum == 0;
}
