// A data race between two towers' threads, which the thread sanitizer must report under the tests' options.
#include "backends/worker.h"

#include <future>

int main() {
    int sum = 0;
    towers::Worker one, other;
    const std::future<void> first = one.run([&] { ++sum; }), second = other.run([&] { ++sum; });
    first.wait();
    second.wait();
    return sum == 0;
}
