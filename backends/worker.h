// A thread that does one task after another.
#pragma once

#include "backends/headroom.h"
#include "backends/milestones.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace towers {

/// One thread at a time may use it.
class Worker {
public:
    /// `spin`: how long it waits for a task before it sleeps.
    explicit Worker(Milestones::Spin spin = Milestones::Spin::zero())
        : started_(spin), thread_(start_thread([this] { work(); })) {}
    Worker(const Worker&) = delete; // its thread holds its address
    Worker& operator=(const Worker&) = delete;
    /// Finishes a task that has been started.
    ~Worker() { started_.fail(); }

    /// Starts a task, which must stay where it is until it has ended, when the previous one has ended.
    void start(const std::function<void()>& task) {
        wait();
        task_ = &task;
        failure_ = nullptr;
        started_.advance(++tasks_);
    }
    void start(std::function<void()>&& task) = delete; // it would not stay
    void wait() const { ended_.wait_for(tasks_); }
    /// Waits at most this long; returns whether the task has ended.
    bool wait_for(std::chrono::duration<double> most) const {
        return ended_.wait_for(tasks_, most) == Milestones::Outcome::passed;
    }
    /// Waits, and throws what the task has thrown, once.
    void get() {
        wait();
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

private:
    void work() {
        for (std::uint64_t task = 1;
             started_.wait_for(task) == Milestones::Outcome::passed || started_.count() >= task; ++task) {
            try {
                (*task_)();
            } catch (...) {
                failure_ = std::current_exception();
            }
            ended_.advance(task);
        }
    }

    const std::function<void()>* task_ = nullptr;
    std::exception_ptr failure_;
    std::uint64_t tasks_ = 0; ///< that were started
    Milestones started_, ended_;
    std::jthread thread_; // last: it uses the others
};

} // namespace towers
