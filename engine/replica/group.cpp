#include "engine/replica/group.h"

#include "backends/watched_device.h"
#include "engine/ranks/message.h"
#include "engine/reduce/host_reducer.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <utility>

namespace towers {
namespace {

std::vector<StagedByTower> staged_by(std::span<const std::unique_ptr<Tower>> towers) {
    std::vector<StagedByTower> staged;
    for (const auto& tower : towers)
        staged.push_back({tower->staged_gradients(), tower->staged_parameters()});
    return staged;
}

std::unique_ptr<GradientReducer> make_host_reducer(OpenOptions host, Milestones::Spin spin,
                                                   const UpdateSpec& spec, std::vector<StagedByTower> towers,
                                                   std::span<const ArenaRange> buckets) {
    host.threads = reducer_threads(host.threads, *spec.layout);
    return std::make_unique<HostReducer>(host, spin, spec, std::move(towers), buckets);
}

Waiting waiting_beside(std::span<const std::unique_ptr<Tower>> towers, const TowerSetOptions& options) {
    const unsigned processors =
        cpu_threads(options.has_ranks ? options.host.threads : 0); // others share them
    const bool on_host = std::ranges::any_of(towers, [](const auto& tower) {
        return tower->info().kind == DeviceKind::cpu || tower->info().kind == DeviceKind::software;
    });
    if (on_host || processors <= towers.size()) return {.most_threads = processors};
    return {Milestones::Spin(50), processors - unsigned(towers.size())};
}

} // namespace

TowerGroup::TowerGroup(std::vector<std::unique_ptr<Tower>> towers, const UpdateSpec& update,
                       const TowerSetOptions& options)
    : caller_(options.caller), layout_(*update.layout), watchdog_(options.patience), host_(options.host),
      waiting_(waiting_beside(towers, options)),
      reducer_((options.make_reducer ? options.make_reducer : make_host_reducer)(
          reducer_host(options.host), waiting_.spin, update, staged_by(towers), towers[0]->buckets())),
      shared_{*reducer_, options.next_batch}, has_ranks_(options.has_ranks) {
    for (std::size_t bucket = 0; bucket < towers[0]->buckets().size(); ++bucket)
        bucket_names_.push_back(fmt::format("average bucket {}", bucket));
    std::vector<Share> taken;
    for (auto& tower : towers) {
        taken.push_back(tower->taken());
        threads_.push_back(std::make_unique<TowerThread>(
            std::move(tower), threads_.size(), shared_, waiting_.spin, options.trace,
            options.trace ? options.processes[taken.size() - 1] : ""));
    }
    take(taken);
}

TowerGroup::~TowerGroup() {
    for (auto& thread : threads_)
        if (thread->progress.is_abandoned()) keep_for_ever(std::move(thread));
}

OpenOptions TowerGroup::reducer_host(OpenOptions host) const {
    host.threads = std::min(cpu_threads(host.threads), waiting_.most_threads);
    return host;
}

void TowerGroup::take(std::span<const Share> shares) {
    if (!shared_.active.empty() && std::ranges::equal(given_, shares)) return;
    bring_home();
    shared_.active.clear();
    given_.assign(shares.begin(), shares.end());
    for (const auto& thread : threads_) thread->share = given_[thread->index].examples;
    for (const auto& thread : threads_) {
        if (thread->progress.is_abandoned()) { // it is still inside the driver, so nothing may touch it
            if (thread->share > 0) throw no_answer(*thread);
            continue;
        }
        const Share& given = given_[thread->index];
        if (thread->tower->taken() == given) continue;
        if (given.alone || thread->tower->taken().alone) thread->up_to_date = false;
        thread->step_time.renew();
        try {
            thread->tower->take(given);
        } catch (const DeviceError& error) {
            throw TowerFailed(error, std::current_exception(), thread->index, thread->share);
        }
    }
    for (const auto& thread : threads_) {
        if (thread->share == 0) continue;
        shared_.active.push_back(thread.get());
        thread->exchanges.clear();
        for (const Tower::Segment& segment : thread->tower->segments())
            for (const Exchange& exchange : segment.exchanges) thread->exchanges.push_back(&exchange);
    }
}

void TowerGroup::record_again() {
    for (const auto& thread : threads_) {
        if (thread->progress.is_abandoned()) continue;
        thread->step_time.renew();
        try {
            thread->tower->record_again();
        } catch (const DeviceError&) { // It is idle now. The others record, then take() tries again.
        }
    }
    shared_.active.clear(); // it knows the old recordings
    take(std::vector(given_));
}

StepResults TowerGroup::step(const StepWork& given, const StepWork* next) {
    if (is_alone()) return step_alone(given, next);
    const StepVerdict verdict = work(given.numbers, given.batch, true);
    for (TowerThread* thread : shared_.active) thread->up_to_date = verdict.results.finite;
    return verdict.results;
}

/// A whole step. Waits for all towers before an exception leaves.
StepVerdict TowerGroup::work(const StepNumbers& numbers, const Batch& batch, bool counts) {
    const Clock::time_point begin = Clock::now();
    prepare(numbers, batch);
    for (TowerThread* thread : shared_.active) thread->start();
    bool all_well = false;
    std::exception_ptr reducer_failed;
    try {
        all_well = give_buckets();
    } catch (...) {
        reducer_failed = std::current_exception();
    }
    if (!all_well) reducer_->fail(); // towers may wait for it
    all_well = wait_for_all(&TowerProgress::end, 1) && all_well;
    if (all_well) {
        const Interval rest = caller_.time(host_times_.averaging, "average the rest");
        reducer_->complete().wait_for(bucket_names_.size());
    } else {
        reducer_->fail();
    }
    all_well = wait_for_all(&TowerProgress::renewal, 1) && all_well;
    cross_entropies_.assign(threads_.size(), 0);
    if (all_well)
        for (const TowerThread* thread : shared_.active)
            cross_entropies_[thread->index] = thread->results.cross_entropy;
    const std::vector<std::byte> told = has_ranks_ ? report(all_well, begin) : std::vector<std::byte>();
    StepVerdict verdict =
        reducer_->end({.cross_entropies = cross_entropies_, .counts = counts && all_well, .report = told});
    if (reducer_failed) std::rethrow_exception(reducer_failed);
    throw_failures();
    if (has_ranks_) take_reports(verdict.reports, verdict.counts || !counts);
    distribute_times(begin);
    for (TowerThread* thread : shared_.active) thread->step_time.observe(thread->share, thread->times.work);
    return verdict;
}

std::vector<std::byte> TowerGroup::report(bool all_well, Clock::time_point begin) const {
    Writer message;
    message.put(std::uint64_t(all_well));
    const Clock::time_point last = last_end(begin);
    std::vector<Report> towers;
    for (const auto& thread : threads_) {
        const float cross_entropy = thread->share > 0 ? thread->results.cross_entropy : 0;
        towers.push_back(all_well ? Report{times_of(*thread, begin, last), cross_entropy, thread->share}
                                  : Report{});
    }
    message.put(std::span<const Report>(towers));
    return message.take();
}

void TowerGroup::take_reports(const std::vector<Bytes>& messages, bool counts) {
    reports_.clear();
    bool all_well = true;
    for (const Bytes& message : messages) {
        Reader reader(message);
        all_well = reader.get<std::uint64_t>() != 0 && all_well;
        while (reader.has_more()) reports_.push_back(reader.get<Report>());
    }
    if (!all_well || !counts) throw OthersFailed();
}

void TowerGroup::prepare(const StepNumbers& numbers, const Batch& batch) {
    examples_ = batch.examples.size();
    shared_.batch = batch;
    ExpectedTime expected;
    progress_.clear();
    indices_.clear();
    std::size_t first = others_first_;
    for (TowerThread* thread : shared_.active) {
        Tower& tower = *thread->tower;
        thread->first_example = first;
        tower.prepare(numbers, batch.slice(first, thread->share));
        first += thread->share;
        expected += thread->step_time.expect(thread->share, tower.flops(), tower.info());
        progress_.push_back(&thread->progress);
        indices_.push_back(thread->index);
    }
    watchdog_.begin(expected, progress_);
    reducer_->begin(numbers, indices_);
    for (const auto& thread : threads_) {
        thread->progress.restart();
        if (thread->share == 0) thread->up_to_date = false; // idle towers do not get the new parameters
    }
}

/// Gives each bucket to the reducer when all towers have delivered it. Returns false if a tower has failed.
bool TowerGroup::give_buckets() {
    for (std::size_t bucket = 0; bucket < bucket_names_.size(); ++bucket) {
        if (!wait_for_all(&TowerProgress::buckets, bucket + 1)) return false;
        const Interval averaging = caller_.time(host_times_.averaging, bucket_names_[bucket]);
        reducer_->give(bucket + 1);
    }
    return true;
}

/// Waits until each tower has passed this many milestones or has failed. Returns false if one has failed.
bool TowerGroup::wait_for_all(Milestones TowerProgress::*what, std::size_t count) {
    bool all_well = true;
    for (const TowerThread* thread : shared_.active) {
        const Interval waiting = caller_.time(host_times_.waiting, thread->awaited);
        all_well = watchdog_.wait_for(thread->progress, what, count) && all_well;
    }
    return all_well;
}

void TowerGroup::throw_failures() {
    for (TowerThread* thread : shared_.active) throw_failure_of(*thread);
}

void TowerGroup::throw_failure_of(TowerThread& thread) {
    if (thread.progress.is_abandoned()) throw no_answer(thread);
    try {
        thread.worker.get();
    } catch (const DeviceError& error) {
        throw TowerFailed(error, std::current_exception(), thread.index);
    }
}

TowerFailed TowerGroup::no_answer(const TowerThread& thread) const {
    const DeviceError error(watchdog_.no_answer(thread.tower->info()));
    return {error, std::make_exception_ptr(error), thread.index};
}

bool TowerGroup::test(const std::shared_ptr<TestPass>& pass) {
    const std::size_t examples = pass->examples.size();
    std::size_t whole = 0, before = 0;
    for (const TowerThread* thread : shared_.active) whole += thread->share;
    ExpectedTime expected;
    progress_.clear();
    std::vector<std::size_t> firsts{0}; // of each tower's part
    for (TowerThread* thread : shared_.active) {
        before += thread->share;
        firsts.push_back(examples * before / whole);
        expected +=
            thread->step_time.expect_test(unsigned(firsts.back() - *(firsts.end() - 2)), thread->share,
                                          thread->tower->flops(), thread->tower->info());
        thread->progress.restart();
        progress_.push_back(&thread->progress);
    }
    watchdog_.begin(expected, progress_);
    for (std::size_t i = 0; i < shared_.active.size(); ++i)
        shared_.active[i]->test(pass, firsts[i], firsts[i + 1] - firsts[i]);
    wait_for_all(&TowerProgress::end, 1);
    throw_failures();
    return !pass->over;
}

/// When the last tower has done its part of the step.
Clock::time_point TowerGroup::last_end(Clock::time_point begin) const {
    Clock::time_point last = begin;
    for (const TowerThread* thread : shared_.active) last = std::max(last, thread->progress.ended);
    return last;
}

/// After its own part, a tower waits for the others and then for the host. An idle one waits for the others
/// from the beginning.
TowerTimes TowerGroup::times_of(const TowerThread& thread, Clock::time_point begin, Clock::time_point last) {
    const bool idle = thread.share == 0;
    TowerTimes times = idle ? TowerTimes{} : thread.progress.times;
    times.others += std::chrono::duration<double>(last - (idle ? begin : thread.progress.ended)).count();
    return times;
}

void TowerGroup::distribute_times(Clock::time_point begin) {
    const Clock::time_point now = Clock::now(), last = last_end(begin);
    for (const auto& thread : threads_) {
        thread->times = times_of(*thread, begin, last);
        if (thread->share == 0) {
            thread->clock.add("no share", begin, now);
        } else {
            thread->clock.add("wait for others", thread->progress.ended, last);
            thread->clock.add("wait for the host", last, now);
        }
    }
}

std::unique_ptr<TowerGroup> make_tower_group(std::vector<std::unique_ptr<Tower>> towers,
                                             const UpdateSpec& update, const TowerSetOptions& options) {
    return std::make_unique<TowerGroup>(std::move(towers), update, options);
}

} // namespace towers
