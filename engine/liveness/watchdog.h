// Notices that the calling thread's work does not end. A thread that hangs in a driver cannot notice it, and
// nothing can stop it.
#pragma once

#include "backends/watched_device.h"
#include "engine/liveness/patience.h"
#include "engine/liveness/progress.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace towers {

class Watchdog {
public:
    /// Starts a thread that calls `expired` whenever watched work takes too long.
    Watchdog(Patience patience, std::function<void()> expired)
        : patience_(std::move(patience)), expired_(std::move(expired)), thread_([this] { watch(); }) {}
    ~Watchdog() { stopped_.advance(1); }

    /// What is done while it lives must end within the limit, or soon after the user wants to end the
    /// program; time in which this program was stopped hardly counts. One at a time. Without a dog it does
    /// nothing.
    class Watch {
    public:
        Watch(std::optional<Watchdog>& dog, const TimeLimit& limit) : dog_(dog) {
            if (!dog_) return;
            attended_.emplace();
            dog_->set(limit);
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() {
            if (dog_) dog_->unset();
        }

    private:
        std::optional<Watchdog>& dog_;
        std::optional<Attended> attended_;
    };

    /// Time until it is called with false does not count.
    void suspend(bool suspended) {
        const std::lock_guard lock(mutex_);
        suspended_ = suspended;
    }

private:
    void set(const TimeLimit& limit) {
        const std::lock_guard lock(mutex_);
        left_ = limit.seconds() + pause_.length.count(); // it begins within a pause
        at_the_end_ = Patience::at_the_end(limit);
    }
    void unset() {
        const std::lock_guard lock(mutex_);
        left_.reset();
    }

    void watch() {
        while (stopped_.wait_for(1, pause_.length) == Milestones::Outcome::late) {
            std::unique_lock lock(mutex_);
            if (left_ && patience_.stop_requested()) {
                left_ = std::min(*left_, at_the_end_);
                at_the_end_ = *left_;
            }
            if (!left_ || suspended_ || (*left_ -= pause_.counts(1)) > 0) continue;
            left_.reset();
            lock.unlock();
            expired_();
        }
    }

    Patience patience_;
    const Pause& pause_ = patience_.pause();
    std::function<void()> expired_;
    std::mutex mutex_;
    std::optional<double> left_; ///< seconds; none: no work is watched
    double at_the_end_ = 0;      ///< seconds from the moment on when the user wants to end the program
    bool suspended_ = false;
    Milestones stopped_;
    std::jthread thread_; // last: it uses the others
};

} // namespace towers
