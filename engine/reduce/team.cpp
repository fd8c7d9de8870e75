#include "engine/reduce/team.h"

#include "backends/denormals.h"
#include "backends/headroom.h"

#include <utility>

namespace towers {

Team::Team(std::size_t threads, Milestones::Spin spin, Work work) : work_(std::move(work)), called_(spin) {
    for (std::size_t thread = 1; thread < threads; ++thread)
        threads_.push_back(start_thread([this, thread] { serve(thread); }));
}

Team::~Team() {
    cancel();
    called_.fail();
}

void Team::begin() {
    next_ = 0;
    failure_ = nullptr;
    ready_.restart();
    inside_.fetch_and(~closed); // a late thread may be about to leave
}

void Team::release(std::size_t count) {
    if (!ready_.advance(count)) return;
    if (count > next_ + 1) called_.advance(++calls_); // more than the caller takes itself
    do_items(0);
}

void Team::end() {
    do_items(0);
    // A thread that has not woken up yet finds the step closed: nobody waits for it.
    for (std::uint32_t left = inside_.fetch_or(closed) | closed; left != closed; left = inside_)
        inside_.wait(left);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::serve(std::size_t thread) {
    for (std::size_t seen = 0; called_.wait_for(seen + 1) == Milestones::Outcome::passed;) {
        seen = called_.count(); // before it looks for items: it misses no call
        if (!enter()) continue;
        do_items(thread);
        leave();
    }
}

bool Team::enter() {
    if ((inside_.fetch_add(1) & closed) == 0) return true;
    leave();
    return false;
}

void Team::leave() {
    if (inside_.fetch_sub(1) - 1 == closed) inside_.notify_all(); // the caller may wait for the last one
}

std::size_t Team::take() {
    std::size_t item = next_;
    while (item < ready_.count() && !ready_.has_failed())
        if (next_.compare_exchange_weak(item, item + 1)) return item;
    return none;
}

void Team::do_items(std::size_t thread) try {
    const FlushDenormals flush;
    for (std::size_t item = take(); item != none && !ready_.has_failed();) {
        const std::size_t next = take();
        work_(thread, item, next);
        item = next;
    }
} catch (...) {
    cancel();
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
}

} // namespace towers
