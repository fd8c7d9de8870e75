#include "engine/replica/tower_thread.h"

#include "backends/watched_device.h"
#include "engine/clock.h"
#include "engine/replica/tower_set.h"

#include <algorithm>
#include <utility>

namespace towers {
namespace {

/// A tower's part of one step, on its thread. After each call to the device it checks the tower's progress: a
/// thread that hung and returns late finds it failed, and must not touch memory of others, since the group
/// may be gone.
class TowerStep {
public:
    TowerStep(TowerThread& thread, GroupStep& step)
        : thread_(thread), step_(step), tower_(*thread.tower), progress_(thread.progress),
          buckets_(tower_.buckets().size()) {}

    /// Returns false if a tower has failed or was abandoned.
    bool take(bool up_to_date) {
        if (!up_to_date && !receive_all()) return false;
        if (!progress_.unless_abandoned([&] { tower_.stage(share_of(step_.batch)); })) return false;
        submit_from(0);
        if (!prefetch()) return false;
        {
            const Interval waiting = thread_.clock.time(times_.copies, "wait for parameters");
            tower_.wait_for_parameters();
        }
        for (std::size_t i = 0; i < tower_.segments().size(); ++i) {
            const Tower::Segment& segment = tower_.segments()[i];
            {
                const Interval waiting = thread_.clock.time(times_.compute, "wait for kernels");
                tower_.wait(i);
            }
            if (progress_.end.has_failed()) return false;
            if (!segment.exchanges.empty()) {
                if (!exchange(segment.exchanges)) return false;
                submit_from(i + 1);
            }
            if (!deliver(segment.cut.buckets)) return false;
        }
        thread_.results = tower_.results();
        return end() && receive_rest() && progress_.renewal.advance(1);
    }

    /// The same for a tower that has all examples. It also begins the next step, if it may, and ends when the
    /// host has a copy of the new state.
    bool take_alone(bool up_to_date) {
        const bool begun = std::exchange(thread_.ahead, false);
        if (begun) begin_ = progress_.ended;
        if (!begun) {
            if (!up_to_date) tower_.load_state();
            if (!progress_.unless_abandoned([&] { tower_.stage(step_.batch); })) return false;
            submit_from(0);
        }
        if (!begin_next()) return false;
        {
            const Interval waiting = thread_.clock.time(times_.compute, "wait for kernels");
            thread_.results = thread_.ahead ? tower_.finish_earlier() : tower_.finish();
            if (!thread_.results.finite && std::exchange(thread_.ahead, false))
                tower_.finish(); // it changes nothing
        }
        return end() && progress_.renewal.advance(1);
    }

private:
    bool begin_next() {
        if (!tower_.can_go_ahead()) return prefetch();
        const auto prepare = [&] {
            thread_.ahead = step_.next != nullptr;
            if (!thread_.ahead) return;
            StepNumbers numbers = step_.next->numbers;
            numbers.follows = true;
            tower_.prepare(numbers, step_.next->batch);
            tower_.stage(step_.next->batch);
        };
        if (!progress_.unless_abandoned(prepare)) return false;
        if (!thread_.ahead) return prefetch();
        submit_from(0);
        return true;
    }

    bool end() {
        progress_.ended = Clock::now();
        times_.work = seconds_between(begin_, progress_.ended) - times_.others;
        progress_.times = times_;
        return progress_.end.advance(1);
    }

    bool receive_all() {
        if (!progress_.unless_abandoned([&] { step_.reducer.hand_over(thread_.index); })) return false;
        tower_.upload_frozen();
        upload(buckets_);
        uploaded_ = 0;
        return true;
    }

    Batch share_of(const Batch& batch) const { return batch.slice(thread_.first_example, thread_.share); }

    /// Brings the next step's images, which it takes if the shares stay.
    bool prefetch() {
        if (!tower_.can_prefetch()) return true;
        const auto stage = [&] {
            if (const Batch next = step_.next_batch(); !next.examples.empty())
                tower_.prefetch(share_of(next));
        };
        if (!progress_.unless_abandoned(stage)) return false;
        tower_.upload_prefetched();
        return true;
    }

    void submit_from(std::size_t segment) {
        const Interval submitting = thread_.clock.time(times_.compute, "submit");
        tower_.submit_from(segment);
    }

    /// Merges all towers' lists, for this tower, at the exchanges after one of its segments.
    bool exchange(std::span<const Exchange> own) {
        const Interval waiting = thread_.clock.time(times_.others, "wait for others");
        const std::size_t first = progress_.exchanges.count();
        if (!progress_.exchanges.advance(first + own.size())) return false;
        for (const TowerThread* other : step_.active)
            if (other->progress.exchanges.wait_for(first + own.size()) != Milestones::Outcome::passed)
                return false;
        // Towers may cut their steps at different places, but all have the same exchanges in the same order.
        const auto for_each = [&](auto&& work) {
            return progress_.unless_abandoned([&] {
                for (std::size_t k = 0; k < own.size(); ++k) {
                    lists_.clear();
                    for (const TowerThread* thread : step_.active)
                        lists_.push_back(thread->exchanges[first + k]);
                    work(first + k, own[k]);
                }
            });
        };
        GradientReducer& reducer = step_.reducer;
        const auto wait_for_ranks = [&] {
            progress_.is_excused = true;
            const auto outcome = reducer.exchanged().wait_for(first + own.size());
            progress_.is_excused = false;
            return outcome == Milestones::Outcome::passed;
        };
        return for_each([&](std::size_t k, const Exchange&) { reducer.give_lists(k, lists_); }) &&
               wait_for_ranks() &&
               for_each([&](std::size_t k, const Exchange& mine) { reducer.merge(k, lists_, mine); });
    }

    /// Delivers the buckets of gradients up to `count`, and uploads the new parameters that are ready.
    bool deliver(std::size_t count) {
        for (; delivered_ < count; ++delivered_) {
            {
                const Interval waiting = thread_.clock.time(times_.copies, "wait for gradients");
                tower_.wait_for_bucket(delivered_);
            }
            if (!progress_.buckets.advance(delivered_ + 1)) return false;
            upload(step_.reducer.complete().count());
        }
        return true;
    }

    /// Uploads the remaining parameters as they become ready, unless the step fails.
    bool receive_rest() {
        while (uploaded_ < buckets_ &&
               step_.reducer.complete().wait_for(uploaded_ + 1) == Milestones::Outcome::passed) {
            upload(step_.reducer.complete().count());
            if (progress_.end.has_failed()) return false;
        }
        return true;
    }

    void upload(std::size_t count) {
        for (; uploaded_ < count; ++uploaded_) tower_.upload(uploaded_);
    }

    TowerThread& thread_;
    GroupStep& step_;
    Tower& tower_;
    TowerProgress& progress_;
    const std::size_t buckets_;
    Clock::time_point begin_ = Clock::now();
    TowerTimes times_;
    std::size_t delivered_ = 0, uploaded_ = 0; ///< buckets
    std::vector<const Exchange*> lists_;       ///< all towers', at an exchange
};

} // namespace

TowerThread::TowerThread(std::unique_ptr<Tower> its, std::size_t number, GroupStep& step,
                         Milestones::Spin spin, const std::shared_ptr<Trace>& trace,
                         const std::string& process)
    : tower(std::move(its)), index(number), clock(trace, process, "thread"), share(tower->share()),
      progress(spin), step_task([this, &step] {
          const Attended attended;
          try {
              TowerStep work(*this, step);
              const bool current = std::exchange(up_to_date, false);
              if (!(is_alone() ? work.take_alone(current) : work.take(current))) progress.fail();
          } catch (...) {
              progress.fail();
              throw;
          }
      }),
      worker(spin) {}

void TowerThread::test(const std::shared_ptr<TestPass>& pass, std::size_t first, std::size_t count) {
    other_task = [this, pass, first, count] {
        const Attended attended;
        const auto stop = [&] { // the pass's `stop` is another's memory
            bool over = false;
            return !progress.unless_abandoned([&] { over = pass->is_over(); }) || over;
        };
        const auto reads = [&](bool begins) { progress.is_excused = begins; };
        try {
            tower->test(pass->variables, std::span(pass->examples).subspan(first, count),
                        pass->predictions.all().part(first, count), {stop, reads});
            progress.end.advance(1);
        } catch (...) {
            pass->over = true;
            progress.fail();
            throw;
        }
    };
    worker.start(other_task);
}

/// Starts work on the tower, which shows when it has ended.
void TowerThread::start(std::function<void()> work) {
    other_task = [this, work = std::move(work)] {
        const Attended attended;
        try {
            work();
            progress.end.advance(1);
        } catch (...) {
            progress.fail();
            throw;
        }
    };
    worker.start(other_task);
}

void TowerThread::summarize(const std::shared_ptr<SummaryPass>& pass) {
    start([this, pass] { summarize_layers(tower->session(), tower->at_once().most, *pass); });
}

void TowerThread::get_gradients(const std::shared_ptr<std::vector<float>>& gradients) {
    start([this, gradients] { tower->session().download(Arena::gradients, *gradients); });
}

} // namespace towers
