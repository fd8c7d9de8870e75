// A data race between two towers' threads, which the thread sanitizer must report under the tests' options.
#include "backends/worker.h"

int main() {
    int sum = 0;
    const std::function<void()> task = [&] { ++sum; };
    towers::Worker one, other;
    one.start(task);
    other.start(task);
    one.wait();
    other.wait();
    return sum == 0;
}
