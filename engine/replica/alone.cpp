// Steps of a group in which one tower has all examples, and where the state is after them.
#include "engine/replica/group.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace towers {

StepResults TowerGroup::step_alone(const StepWork& work, const StepWork* next) {
    const Clock::time_point begin = Clock::now();
    TowerThread& thread = *shared_.active[0];
    examples_ = work.batch.examples.size();
    shared_.batch = work.batch;
    shared_.next = next;
    for (const auto& each : threads_)
        if (each.get() != &thread) each->up_to_date = false;
    if (!std::exchange(ahead_, false)) {
        thread.ahead = false;
        thread.first_example = 0;
        if (!thread.up_to_date) save(thread.tower->kept_state());
        thread.tower->prepare(work.numbers, work.batch);
    }
    watch(thread, thread.step_time.expect(thread.share, thread.tower->flops(), thread.tower->info()));
    thread.start();
    wait_for_all(&TowerProgress::renewal, 1);
    try {
        throw_failure_of(thread);
    } catch (...) {
        bring_home();
        throw;
    }
    ahead_ = thread.ahead;
    kept_ = thread.tower->kept_state();
    thread.up_to_date = thread.results.finite;
    if (!thread.up_to_date) bring_home();
    distribute_times(begin);
    // Not times.work, which also has the caller's time between two steps
    thread.step_time.observe(thread.share, seconds_between(begin, thread.progress.ended));
    return thread.results;
}

/// Begins to watch one tower, whose work is started next.
void TowerGroup::watch(TowerThread& thread, const ExpectedTime& expected) {
    thread.progress.restart();
    progress_.assign({&thread.progress});
    watchdog_.begin(expected, progress_);
}

void TowerGroup::wait_for_end_of(TowerThread& thread) {
    watchdog_.wait_for(thread.progress, &TowerProgress::end, 1);
    throw_failure_of(thread);
}

/// Gives the reducer the state if a tower has kept it.
void TowerGroup::bring_home() {
    if (!kept_.empty()) reducer_->load(std::exchange(kept_, {}));
}

void TowerGroup::load(std::span<const float> state) {
    kept_ = {};
    reducer_->load(state);
    for (const auto& thread : threads_) thread->up_to_date = false;
}

void TowerGroup::save(std::span<float> state) {
    if (kept_.empty())
        reducer_->save(state);
    else
        std::ranges::copy(kept_, state.begin());
}

void TowerGroup::save_gradients(std::span<float> gradients) {
    if (!is_alone()) return reducer_->save_gradients(gradients);
    TowerThread& thread = *shared_.active[0];
    const auto copied = std::make_shared<std::vector<float>>(gradients.size());
    watch(thread, thread.step_time.expect(thread.share, thread.tower->flops(), thread.tower->info()));
    thread.get_gradients(copied);
    wait_for_end_of(thread);
    std::ranges::copy(*copied, gradients.begin());
}

void TowerGroup::summarize(const std::shared_ptr<SummaryPass>& pass) {
    std::vector<float> whole(layout_.bytes / sizeof(float));
    save(whole);
    {
        const std::unique_ptr<Device> host = open_host_device(host_);
        Session session(*host, Session::Place::host);
        ArenaBytes bytes = pass->state.plan.bytes();
        bytes[std::size_t(Arena::gradients)] = layout_.updated_bytes; // the reducer also gives the statistics
        session.hold(bytes);
        const auto state = session.host<float>(Arena::state);
        std::ranges::copy(std::span(whole).first(state.size()), state.begin());
        if (layout_.updated_bytes > 0) save_gradients(session.host<float>(Arena::gradients));
        summarize_state(session, *pass);
    }
    const auto variables = std::span(whole).first(layout_.variable_bytes / sizeof(float));
    pass->variables.assign(variables.begin(), variables.end());
    if (shared_.active.empty()) return; // the layers' are made by a rank that has a share
    TowerThread& thread = *shared_.active[0];
    watch(thread, thread.step_time.expect_test(unsigned(pass->examples.size()), thread.share,
                                               thread.tower->flops(), thread.tower->info()));
    thread.summarize(pass);
    wait_for_end_of(thread);
}

} // namespace towers
