// A thread that does one task after another.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace towers {

class Worker {
public:
    Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}
    /// Finishes a task that has been started.
    ~Worker() {
        thread_.request_stop();
        wake_.notify_all();
    }

    /// Starts a task after the previous one has ended. The future carries its exception.
    std::future<void> run(std::function<void()> task) {
        std::packaged_task<void()> packaged(std::move(task));
        std::future<void> done = packaged.get_future();
        {
            const std::lock_guard lock(mutex_);
            task_ = std::move(packaged);
        }
        wake_.notify_all();
        return done;
    }

private:
    void work(const std::stop_token& stop) {
        for (;;) {
            std::packaged_task<void()> task;
            {
                std::unique_lock lock(mutex_);
                if (!wake_.wait(lock, stop, [this] { return task_.valid(); })) return;
                task = std::move(task_);
            }
            task();
        }
    }

    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::packaged_task<void()> task_;
    std::jthread thread_; // last: it uses the others
};

} // namespace towers
