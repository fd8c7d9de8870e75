#include "engine/data/byte_budget.h"

namespace towers {

ByteBudget::Share ByteBudget::take(std::uint64_t bytes) {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = asked_++;
    changed_.wait(lock, [&] { return turn == served_ && (taken_ == 0 || taken_ + bytes <= bytes_); });
    ++served_;
    taken_ += bytes;
    lock.unlock();
    changed_.notify_all(); // the next one may fit too
    return {*this, bytes};
}

void ByteBudget::give_back(std::uint64_t bytes) {
    {
        const std::scoped_lock lock(mutex_);
        taken_ -= bytes;
    }
    changed_.notify_all();
}

} // namespace towers
