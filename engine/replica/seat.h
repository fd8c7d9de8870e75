// A tower of a group and its thread.
#pragma once

#include "backends/worker.h"
#include "engine/liveness/patience.h"
#include "engine/liveness/progress.h"
#include "engine/reduce/host_stage.h"
#include "engine/replica/summary.h"
#include "engine/replica/tower.h"

#include <functional>
#include <future>
#include <memory>
#include <vector>

namespace towers {

struct Seat;
struct TestPass;

/// The state of a step that all seats share.
struct SharedStep {
    HostStage& stage;
    std::function<Batch()> next_batch; ///< see TowerSetOptions
    Batch batch{};
    Milestones updated{};        ///< buckets whose new parameters the stage has handed to the towers
    std::vector<Seat*> active{}; ///< those with a share, in the order of the towers
};

struct Seat {
    Seat(std::unique_ptr<Tower> its, std::size_t number, const std::shared_ptr<Trace>& trace)
        : tower(std::move(its)), index(number), clock(trace, tower_process(index, tower->info()), "thread"),
          share(tower->share()) {}

    /// Starts the tower's part of a step on its thread; `done` gets its exceptions. `step` must outlive it,
    /// unless the tower is abandoned.
    void start(SharedStep& step);
    /// Likewise its part of a test pass, so many examples from `first` on.
    void test(const std::shared_ptr<TestPass>& pass, std::size_t first, std::size_t count);

    /// Likewise the layers' part of a summary.
    void summarize(const std::shared_ptr<SummaryPass>& pass);

    std::unique_ptr<Tower> tower;
    std::size_t index;
    PhaseClock clock;
    unsigned share;                         ///< last assigned; a hung tower may not have received it
    std::size_t first_example = 0;          ///< index of its share's first example in the step
    std::vector<const Exchange*> exchanges; ///< of a step with the share, in order
    bool up_to_date = false;                ///< it has the current parameters, or their upload is submitted
    StepTime step_time;
    TowerTimes times; ///< of the last step
    TowerProgress progress;
    std::future<void> done;
    Worker worker; // last: it uses the others
};

} // namespace towers
