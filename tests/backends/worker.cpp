#include "backends/worker.h"

#include <doctest/doctest.h>
#include <stdexcept>
#include <vector>

namespace towers {

TEST_CASE("a worker does its tasks one after another on a thread of its own") {
    Worker worker;
    std::vector<std::thread::id> threads; // no lock: each task ends before the next one starts
    for (int i = 0; i < 100; ++i) worker.run([&] { threads.push_back(std::this_thread::get_id()); }).get();
    CHECK(threads == std::vector(100, threads[0]));
    CHECK(threads[0] != std::this_thread::get_id());
}

TEST_CASE("a task's exception reaches whoever asks for the result, and the worker goes on") {
    Worker worker;
    CHECK_THROWS_WITH_AS(worker.run([] { throw std::runtime_error("it failed"); }).get(), "it failed",
                         std::runtime_error);
    int done = 0;
    worker.run([&] { ++done; }).get();
    CHECK(done == 1);
}

TEST_CASE("a worker that ends does what it has been given") {
    for (int i = 0; i < 100; ++i) {
        std::future<void> done;
        bool ran = false;
        {
            Worker worker;
            done = worker.run([&] { ran = true; });
        }
        CHECK(ran);
        CHECK_NOTHROW(done.get());
    }
}

} // namespace towers
