// Notices that the calling thread's work does not end. A thread that hangs in a driver cannot notice it, and
// nothing can stop it.
#pragma once

#include "engine/towers/patience.h"
#include "engine/towers/progress.h"

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace towers {

class Watchdog {
public:
    /// Starts a thread that calls `expired` whenever watched work takes too long.
    Watchdog(Pause pause, std::function<void()> expired)
        : pause_(std::move(pause)), expired_(std::move(expired)), thread_([this] { watch(); }) {}
    ~Watchdog() { stopped_.advance(1); }

    /// What is done while it lives must end within so many seconds; time in which this program was stopped
    /// hardly counts. One at a time. Without a dog it does nothing.
    class Watch {
    public:
        Watch(std::optional<Watchdog>& dog, double seconds) : dog_(dog) {
            if (dog_) dog_->set(seconds + dog_->pause_.length.count()); // it begins within a pause
        }
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch() {
            if (dog_) dog_->set({});
        }

    private:
        std::optional<Watchdog>& dog_;
    };

    /// Time until it is called with false does not count.
    void stand(bool stands) {
        const std::lock_guard lock(mutex_);
        stands_ = stands;
    }

private:
    void set(std::optional<double> left) {
        const std::lock_guard lock(mutex_);
        left_ = left;
    }

    void watch() {
        while (stopped_.wait_for(1, pause_.length) == Milestones::Outcome::late) {
            std::unique_lock lock(mutex_);
            if (!left_ || stands_ || (*left_ -= pause_.counts(1)) > 0) continue;
            left_.reset();
            lock.unlock();
            expired_();
        }
    }

    Pause pause_;
    std::function<void()> expired_;
    std::mutex mutex_;
    std::optional<double> left_; ///< seconds; none: no work is watched
    bool stands_ = false;
    Milestones stopped_;
    std::jthread thread_; // last: it uses the others
};

} // namespace towers
