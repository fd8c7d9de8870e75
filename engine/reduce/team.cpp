#include "engine/reduce/team.h"

#include "backends/denormals.h"

#include <utility>

namespace towers {

Team::Team(std::size_t threads, Milestones::Spin spin, Work work) : work_(std::move(work)) {
    ready_.spin_for(spin);
    begun_.spin_for(spin);
    for (std::size_t thread = 1; thread < threads; ++thread)
        threads_.emplace_back([this, thread] { serve(thread); });
}

Team::~Team() {
    cancel();
    begun_.fail();
}

void Team::begin(std::size_t items) {
    items_ = items;
    next_ = 0;
    own_ = none;
    failure_ = nullptr;
    ready_.restart();
    inside_.fetch_and(~closed); // a late thread may be about to leave
    begun_.advance(++steps_);
}

void Team::release(std::size_t count) {
    if (!ready_.advance(count)) return;
    if (own_ == none) own_ = take();
    own_ = do_items(0, own_, false);
}

void Team::end() {
    if (own_ == none) own_ = take();
    own_ = do_items(0, own_, false);
    if (ready_.count() < items_) cancel();
    // A thread that has not woken up yet finds the step closed: nobody waits for it.
    for (std::uint32_t left = inside_.fetch_or(closed) | closed; left != closed; left = inside_)
        inside_.wait(left);
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Team::serve(std::size_t thread) {
    for (std::uint64_t step = 1; begun_.wait_for(step) == Milestones::Outcome::passed;
         step = begun_.count() + 1) {
        if (!enter()) continue;
        do_items(thread, take(), true);
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

std::size_t Team::do_items(std::size_t thread, std::size_t item, bool waits) try {
    const FlushDenormals flush;
    while (item < items_) {
        if (waits ? ready_.wait_for(item + 1) != Milestones::Outcome::passed
                  : ready_.has_failed() || ready_.count() <= item)
            break;
        const std::size_t next = take();
        work_(thread, item, next < ready_.count() ? next : none);
        item = next;
    }
    return item;
} catch (...) {
    cancel();
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
    return item;
}

} // namespace towers
