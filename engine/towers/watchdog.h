// Notices that the calling thread's work does not end. A thread that hangs in a driver cannot notice it, and
// nothing can stop it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace towers {

class Watchdog {
public:
    /// Starts a thread that calls `expired` whenever watched work takes too long.
    explicit Watchdog(std::function<void()> expired)
        : expired_(std::move(expired)), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

    /// What is done while it lives must end within so many seconds; time in which this program was stopped
    /// hardly counts. One at a time. Without a dog it does nothing.
    class Watch {
    public:
        Watch(std::optional<Watchdog>& dog, double seconds) : dog_(dog) {
            if (dog_) dog_->set(seconds + slice);
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() {
            if (dog_) dog_->set({});
        }

    private:
        std::optional<Watchdog>& dog_;
    };

private:
    static constexpr double slice = 0.1; // seconds between two looks, few enough to cost the work nothing

    void set(std::optional<double> left) {
        const std::lock_guard lock(mutex_);
        left_ = left;
    }

    void watch(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (!stop.stop_requested()) {
            stopped_.wait_for(lock, stop, std::chrono::duration<double>(slice), [] { return false; });
            if (!left_ || (*left_ -= slice) > 0) continue;
            left_.reset();
            lock.unlock();
            expired_();
            lock.lock();
        }
    }

    std::function<void()> expired_;
    std::mutex mutex_;
    std::condition_variable_any stopped_;
    std::optional<double> left_; ///< seconds; none: no work is watched
    std::jthread thread_;        // last: it uses the others
};

} // namespace towers
