// A tower of a group, with the thread that serves it.
#pragma once

#include "engine/towers/host_stage.h"
#include "engine/towers/patience.h"
#include "engine/towers/progress.h"
#include "engine/towers/tower.h"
#include "engine/towers/worker.h"

#include <future>
#include <memory>
#include <vector>

namespace towers {

struct Seat;

/// What the seats of a group share.
struct SharedStep {
    HostStage& stage;
    Milestones updated{};        ///< buckets whose new parameters the stage has handed to the towers
    std::vector<Seat*> active{}; ///< those with a share, in the order of the towers
};

struct Seat {
    Seat(std::unique_ptr<Tower> its, std::size_t number, const std::shared_ptr<Trace>& trace)
        : tower(std::move(its)), index(number), clock(trace, tower_process(index, tower->info()), "thread"),
          share(tower->share()) {}

    /// Starts the thread on the tower's part of a step, whose exceptions `done` gets. `step` must outlive it,
    /// except for a tower that is abandoned.
    void start(SharedStep& step);

    std::unique_ptr<Tower> tower;
    std::size_t index;
    PhaseClock clock;
    unsigned share;                         ///< last assigned; a tower that hangs may not have received it
    std::size_t first_example = 0;          ///< of its share, within the step's examples
    std::vector<const Exchange*> exchanges; ///< of a step with the share, in order
    bool up_to_date = false; ///< whether it has the present parameters, or their upload is submitted
    StepTime step_time;
    TowerTimes times; ///< of the last step
    TowerProgress progress;
    std::future<void> done;
    Worker worker; // last: it uses the others
};

} // namespace towers
