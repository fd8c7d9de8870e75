#include "backends/worker.h"

#include <doctest/doctest.h>
#include <stdexcept>
#include <vector>

namespace towers {

using Task = std::function<void()>;

TEST_CASE("a worker does its tasks one after another on a thread of its own") {
    std::vector<std::thread::id> threads; // no lock: each task ends before the next one starts
    const Task task = [&] { threads.push_back(std::this_thread::get_id()); };
    Worker worker;
    for (int i = 0; i < 100; ++i) {
        worker.start(task);
        worker.get();
    }
    CHECK(threads == std::vector(100, threads[0]));
    CHECK(threads[0] != std::this_thread::get_id());
}

TEST_CASE("a task's exception reaches whoever asks for the result, once, and the worker goes on") {
    int done = 0;
    const Task fails = [] { throw std::runtime_error("it failed"); }, works = [&] { ++done; };
    Worker worker;
    worker.start(fails);
    CHECK_THROWS_WITH_AS(worker.get(), "it failed", std::runtime_error);
    CHECK_NOTHROW(worker.get());
    worker.start(fails);
    worker.wait();
    worker.start(works);
    CHECK_NOTHROW(worker.get());
    CHECK(done == 1);
}

TEST_CASE("a worker can be waited for for a while") {
    Milestones go;
    const Task task = [&] { go.wait_for(1); };
    Worker worker;
    worker.start(task);
    CHECK_FALSE(worker.wait_for(std::chrono::duration<double>(0.01)));
    go.advance(1);
    worker.wait();
    CHECK(worker.wait_for(std::chrono::duration<double>(0)));
}

TEST_CASE("a worker that ends does what it has been given") {
    for (int i = 0; i < 100; ++i) {
        bool ran = false;
        const Task task = [&] { ran = true; };
        { // a worker that ends at once
            Worker worker;
            worker.start(task);
        }
        CHECK(ran);
    }
}

} // namespace towers
