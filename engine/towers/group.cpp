#include "engine/towers/group.h"

#include "engine/clock.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

std::vector<StagedByTower> staged_by(const Towers& towers) {
    std::vector<StagedByTower> staged;
    for (const auto& tower : towers)
        staged.push_back({tower->staged_gradients(), tower->staged_parameters()});
    return staged;
}

std::atomic<bool> a_tower_hangs = false;

} // namespace

bool any_tower_hangs() { return a_tower_hangs; }

TowerGroup::TowerGroup(Towers& towers, const OpenOptions& host, const UpdateSpec& update, double timeout,
                       Trace* trace, Trace::Track caller)
    : towers_(towers), trace_(trace), caller_(caller), tracks_(towers.size()), layout_(*update.layout),
      stage_(host, update, staged_by(towers), towers[0]->buckets()), times_(towers.size()),
      patience_(timeout, towers.size()), hanging_(towers.size()), renewed_(towers.size()) {
    std::vector<unsigned> shares;
    for (std::size_t i = 0; trace != nullptr && i < towers.size(); ++i)
        tracks_[i] = trace->add_track(tower_process(i, towers[i]->info()), "thread");
    for (const auto& tower : towers) {
        progress_.push_back(std::make_unique<TowerProgress>());
        workers_.push_back(std::make_unique<Worker>());
        shares.push_back(tower->share());
    }
    take(shares);
}

TowerGroup::~TowerGroup() {
    // Reachable, so that no tool takes them for a leak
    struct Hanging {
        std::unique_ptr<Tower> tower;
        std::unique_ptr<TowerProgress> progress;
        std::unique_ptr<Worker> worker;
    };
    static auto& kept = *new std::vector<Hanging>();
    for (std::size_t i = 0; i < hanging_.size(); ++i)
        if (hanging_[i])
            kept.push_back({std::move(towers_[i]), std::move(progress_[i]), std::move(workers_[i])});
}

void TowerGroup::take(std::span<const unsigned> shares) {
    waited_ = averaging_ = 0;
    if (!active_.empty() && std::ranges::equal(shares_, shares)) return;
    active_.clear();
    exchanges_.clear();
    shares_.assign(shares.begin(), shares.end());
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        // Its thread is still inside: nothing of it may be touched.
        if (hanging_[i] && shares[i] > 0) throw no_answer(i);
        if (hanging_[i] || towers_[i]->share() == shares[i]) continue;
        patience_.renew(i);
        try {
            towers_[i]->take(shares[i]);
        } catch (const DeviceError& error) {
            throw TowerFailed(error, i, shares[i]);
        }
    }
    for (std::size_t i = 0; i < towers_.size(); ++i) {
        if (shares[i] == 0) continue;
        active_.push_back(i);
        auto& exchanges = exchanges_.emplace_back();
        for (const Tower::Part& part : towers_[i]->parts())
            for (const Exchange& exchange : part.exchanges) exchanges.push_back(&exchange);
    }
}

void TowerGroup::load(std::span<const float> state) {
    stage_.load(state);
    renewed_.assign(towers_.size(), false);
}

/// A tower that hung and wakes up late finds its progress failed, and touches nothing any more: the group may
/// be gone. So after the device's verbs comes a look at the progress.
/// `renewed`: whether it has the present parameters.
void TowerGroup::run(std::size_t index, bool renewed) {
    Tower& tower = *towers_[index];
    const std::size_t buckets = tower.buckets().size();
    TowerProgress& progress = *progress_[index];
    const Clock::time_point begin = Clock::now();
    TowerTimes times;
    std::size_t uploaded = 0;
    const auto timed = [trace = trace_, track = tracks_[index]](double& sum, const char* what) {
        return Interval(sum, trace, track, what);
    };
    const auto upload = [&](std::size_t count) {
        // All, if the step has just failed: its parameters will not be used.
        for (; uploaded < std::min(count, buckets); ++uploaded) tower.upload(uploaded);
    };
    try {
        if (!renewed) {
            if (!progress.among_others([&] { stage_.hand_over(index); })) return;
            upload(buckets);
            uploaded = 0;
        }
        const auto submit_from = [&](std::size_t part) {
            const Interval submitting = timed(times.compute, "submit");
            tower.submit_from(part);
        };
        submit_from(0);
        {
            const Interval waiting = timed(times.copies, "wait for parameters");
            tower.wait_for_parameters();
        }
        std::size_t delivered = 0;
        for (std::size_t i = 0; i < tower.parts().size(); ++i) {
            const Tower::Part& part = tower.parts()[i];
            {
                const Interval waiting = timed(times.compute, "wait for kernels");
                tower.wait(i);
            }
            if (progress.end.has_failed()) return;
            if (!part.exchanges.empty()) {
                {
                    const Interval waiting = timed(times.others, "wait for others");
                    if (!exchange(index, part.exchanges)) return progress.fail();
                }
                submit_from(i + 1);
            }
            for (; delivered < part.cut.buckets; ++delivered) {
                {
                    const Interval waiting = timed(times.copies, "wait for gradients");
                    tower.wait_for_bucket(delivered);
                }
                if (!progress.buckets.advance(delivered + 1)) return;
                if (!averaged_.has_failed()) upload(averaged_.count());
            }
        }
        progress.ended = Clock::now();
        times.work = std::chrono::duration<double>(progress.ended - begin).count() - times.others;
        progress.times = times;
        if (!progress.end.advance(1)) return;
        while (uploaded < buckets && averaged_.wait_for(uploaded + 1) == Milestones::Outcome::passed) {
            upload(averaged_.count());
            if (progress.end.has_failed()) return;
        }
    } catch (...) {
        progress.fail();
        throw;
    }
    progress.renewal.advance(1);
}

/// Merges what all towers give at the exchanges behind a part of the tower's. False: a tower has failed.
bool TowerGroup::exchange(std::size_t index, std::span<const Exchange> own) {
    TowerProgress& progress = *progress_[index];
    const std::size_t first = progress.exchanges.count();
    if (!progress.exchanges.advance(first + own.size())) return false;
    for (const std::size_t other : active_)
        if (progress_[other]->exchanges.wait_for(first + own.size()) != Milestones::Outcome::passed)
            return false;
    // Another tower may have cut its step elsewhere, but all have the same exchanges in the same order.
    return progress.among_others([&] {
        std::vector<const Exchange*> given(active_.size());
        for (std::size_t k = 0; k < own.size(); ++k) {
            std::ranges::transform(exchanges_, given.begin(),
                                   [&](const auto& of_tower) { return of_tower[first + k]; });
            merge(given, own[k]);
        }
    });
}

/// Waits for a tower's milestone. False: it has failed, or hangs. In slices, so that time in which this
/// program was stopped hardly counts.
bool TowerGroup::await(Milestones TowerProgress::*what, std::size_t tower, std::size_t count) {
    const std::string name = fmt::format("wait for tower_{}", tower);
    const Interval waiting(waited_, trace_, caller_, name);
    for (;;) {
        const double slice = std::min(0.1, std::max(left_, 0.0));
        const Milestones::Outcome outcome =
            (progress_[tower].get()->*what).wait_for(count, std::chrono::duration<double>(slice));
        if (outcome != Milestones::Outcome::late) return outcome == Milestones::Outcome::passed;
        left_ -= slice;
        if (left_ <= 0) abandon_hanging(what);
    }
}

/// Of the towers that are late, those hang that the others do not wait for at an exchange.
void TowerGroup::abandon_hanging(Milestones TowerProgress::*awaited) {
    left_ = limit_.more;
    const bool failed =
        std::ranges::any_of(active_, [&](std::size_t i) { return progress_[i]->end.has_failed(); });
    if (failed && !std::exchange(waiters_woken_, true)) return; // who waited for it may need a moment
    const auto due = awaited == &TowerProgress::renewal ? awaited : &TowerProgress::end;
    const auto late = [&](std::size_t i) { return (progress_[i].get()->*due).count() == 0; };
    std::size_t first = SIZE_MAX;
    for (const std::size_t i : active_)
        if (late(i)) first = std::min(first, progress_[i]->exchanges.count());
    for (const std::size_t i : active_)
        if (late(i) && progress_[i]->exchanges.count() == first) {
            hanging_[i] = a_tower_hangs = true;
            progress_[i]->abandon();
        }
}

TowerFailed TowerGroup::no_answer(std::size_t tower) const {
    return {DeviceError(towers::no_answer(towers_[tower]->info(), limit_)), tower, 0};
}

/// A tower that has done its part waits for the others, then for the host.
void TowerGroup::end_times(Clock::time_point begin) {
    const Clock::time_point now = Clock::now();
    Clock::time_point last = begin;
    for (const std::size_t i : active_) last = std::max(last, progress_[i]->ended);
    times_.assign(towers_.size(), {.others = std::chrono::duration<double>(last - begin).count()});
    for (std::size_t i = 0; trace_ != nullptr && i < towers_.size(); ++i)
        if (shares_[i] == 0) trace_->add(tracks_[i], "no share", begin, now);
    for (const std::size_t i : active_) {
        const Clock::time_point ended = progress_[i]->ended;
        times_[i] = progress_[i]->times;
        times_[i].others += std::chrono::duration<double>(last - ended).count();
        if (trace_ == nullptr) continue;
        if (ended < last) trace_->add(tracks_[i], "wait for others", ended, last);
        trace_->add(tracks_[i], "wait for the host", last, now);
    }
}

StepResults TowerGroup::step(const StepNumbers& numbers, bool keep) {
    const Clock::time_point begin = Clock::now();
    limit_ = patience_.limit(towers_, active_);
    left_ = limit_.seconds();
    waiters_woken_ = false;
    for (std::size_t i = 0; i < progress_.size(); ++i)
        if (!hanging_[i]) progress_[i]->restart();
    averaged_.restart();
    stage_.begin(numbers, active_);
    // None has the next ones until this step has ended well, nor one without a share.
    const std::vector<bool> renewed = std::exchange(renewed_, std::vector<bool>(towers_.size()));
    std::vector<std::future<void>> done;
    try {
        for (const std::size_t i : active_)
            done.push_back(
                workers_[i]->run([this, i, has_present = bool(renewed[i])] { run(i, has_present); }));
    } catch (...) { // else those that run would wait for those that do not
        for (std::size_t k = done.size(); k < active_.size(); ++k) progress_[active_[k]]->fail();
        for (std::future<void>& each : done) each.wait();
        throw;
    }
    bool all_well = true;
    std::exception_ptr stage_failed;
    try {
        for (std::size_t bucket = 0; all_well && bucket < towers_[0]->buckets().size(); ++bucket) {
            for (const std::size_t i : active_)
                all_well = await(&TowerProgress::buckets, i, bucket + 1) && all_well;
            if (!all_well) break;
            const std::string name = fmt::format("average bucket {}", bucket);
            const Interval averaging(averaging_, trace_, caller_, name);
            averaged_.advance(stage_.average(bucket));
        }
    } catch (...) {
        stage_failed = std::current_exception();
        all_well = false;
    }
    // All of them, before an exception leaves
    for (const std::size_t i : active_) all_well = await(&TowerProgress::end, i, 1) && all_well;
    if (!all_well) averaged_.fail();
    for (const std::size_t i : active_) await(&TowerProgress::renewal, i, 1);
    if (stage_failed) std::rethrow_exception(stage_failed);
    for (std::size_t k = 0; k < active_.size(); ++k) {
        const std::size_t i = active_[k];
        if (hanging_[i]) throw no_answer(i);
        try {
            done[k].get();
        } catch (const DeviceError& error) {
            throw TowerFailed(error, i, 0);
        }
    }
    end_times(begin);
    std::vector<float> cross_entropies(towers_.size());
    for (const std::size_t i : active_) {
        cross_entropies[i] = towers_[i]->results().cross_entropy;
        patience_.observe(i, shares_[i], times_[i].work);
    }
    const StepResults results = keep ? stage_.end(cross_entropies) : StepResults{0, 0, false};
    for (const std::size_t i : active_) renewed_[i] = results.finite;
    return results;
}

TowerGroup::Culprit TowerGroup::find_culprit() const {
    const auto all_finite = [](std::span<const float> values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    const auto loss_of = [&](std::size_t tower) { return towers_[tower]->results().cross_entropy; };
    // An exchange hands what is not finite to all: the tower that gave it first has made it.
    for (std::size_t k = 0; k < exchanges_[0].size(); ++k)
        for (std::size_t i = 0; i < active_.size(); ++i)
            if (!std::ranges::all_of(exchanges_[i][k]->given, all_finite))
                return {active_[i], loss_of(active_[i]), "a batch norm's sum"};
    for (const std::size_t i : active_) {
        if (!std::isfinite(loss_of(i))) return {i, loss_of(i), "the loss"};
        for (const VariableSlot& slot : layout_.variables) {
            const auto gradients = towers_[i]->staged_gradients().subspan(slot.range.offset / sizeof(float),
                                                                          slot.variable.elements());
            if (!all_finite(gradients)) return {i, loss_of(i), "the gradient of " + slot.variable.name};
        }
    }
    return {active_[0], loss_of(active_[0]), "the sum of the towers' losses or gradients", true};
}

} // namespace towers
