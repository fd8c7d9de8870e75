// Bounds the memory that threads take at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace towers {

class ByteBudget {
public:
    explicit ByteBudget(std::uint64_t bytes) : bytes_(bytes) {}

    /// Bytes that a thread has taken, until this goes.
    class Share {
    public:
        Share(ByteBudget& budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {}
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { budget_.give_back(bytes_); }

    private:
        ByteBudget& budget_;
        std::uint64_t bytes_;
    };

    /// Waits until the bytes fit beside those that are taken, or none are: what is larger than the budget is
    /// alone. Threads get theirs in the order in which they ask. A thread that has some must not ask.
    [[nodiscard]] Share take(std::uint64_t bytes);

private:
    void give_back(std::uint64_t bytes);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t bytes_, taken_ = 0;
    std::uint64_t asked_ = 0, served_ = 0; ///< threads
};

} // namespace towers
