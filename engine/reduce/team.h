// Threads that share a step's work.
#pragma once

#include "backends/milestones.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace towers {

/// Does a step's items in their order, each as soon as it is ready, on the next free thread. The calling
/// thread is the first of them. The others are woken only if there is more to do than it does itself, and go
/// on while it does other things.
class Team {
public:
    /// Does an item on one of the threads, which are numbered from 0. `next`: the item that the thread does
    /// afterwards, if one is ready yet; else SIZE_MAX.
    using Work = std::function<void(std::size_t thread, std::size_t item, std::size_t next)>;

    /// `threads`: with the caller's.
    Team(std::size_t threads, Milestones::Spin spin, Work work);
    ~Team();

    /// Begins a step, of which no item is ready. The last step must have ended.
    void begin();
    /// The first `count` items are ready. Has the calling thread take part until no ready item is left.
    void release(std::size_t count);
    /// Items that have not been begun need not be done any more.
    void cancel() { ready_.fail(); }
    /// Ends the step: does what is ready, unless it was cancelled, and waits for the threads that are at
    /// work. Throws the first exception of `work`, after which the rest was cancelled.
    void end();

private:
    static constexpr std::uint32_t closed = std::uint32_t(1) << 31;
    static constexpr std::size_t none = SIZE_MAX;

    void serve(std::size_t thread);
    bool enter();
    void leave();
    /// The next item that is ready and that nobody has taken; or none.
    std::size_t take();
    void do_items(std::size_t thread);

    const Work work_;
    Milestones ready_;                           ///< items of this step
    std::atomic<std::size_t> next_ = 0;          ///< the next item that nobody has taken
    std::atomic<std::uint32_t> inside_ = closed; ///< threads at work, besides the caller's
    std::mutex failing_;
    std::exception_ptr failure_;
    std::size_t calls_ = 0;
    Milestones called_;                 ///< how often the threads were woken
    std::vector<std::jthread> threads_; // last: they use the others
};

} // namespace towers
