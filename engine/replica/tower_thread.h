// A tower of a group and its thread.
#pragma once

#include "backends/worker.h"
#include "engine/liveness/patience.h"
#include "engine/liveness/progress.h"
#include "engine/reduce/gradient_reducer.h"
#include "engine/replica/summary.h"
#include "engine/replica/tower.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace towers {

struct TowerThread;
struct StepWork;
struct TestPass;

/// The state of a step that all towers share.
struct GroupStep {
    GradientReducer& reducer;
    std::function<Batch()> next_batch; ///< see TowerSetOptions
    Batch batch{};
    std::vector<TowerThread*> active{}; ///< those with a share, in the order of the towers
    const StepWork* next = nullptr;     ///< the step that a tower may begin which works alone
};

struct TowerThread {
    /// `step` must outlive it, unless the tower is abandoned. `spin`: how long its thread and those who wait
    /// for it do so before they sleep. `process`: its name in the trace, which may be null.
    TowerThread(std::unique_ptr<Tower> its, std::size_t number, GroupStep& step, Milestones::Spin spin,
                const std::shared_ptr<Trace>& trace, const std::string& process);

    bool is_alone() const { return tower->taken().alone; }

    /// Starts the tower's part of a step on its thread; the worker gets its exceptions.
    void start() { worker.start(step_task); }
    /// Likewise its part of a test pass, so many examples from `first` on.
    void test(const std::shared_ptr<TestPass>& pass, std::size_t first, std::size_t count);

    /// Likewise the layers' part of a summary.
    void summarize(const std::shared_ptr<SummaryPass>& pass);
    /// Likewise gets the gradients that a step alone has left on the device.
    void get_gradients(const std::shared_ptr<std::vector<float>>& gradients);

    std::unique_ptr<Tower> tower;
    std::size_t index;
    PhaseClock clock;
    const std::string awaited = "wait for tower_" + std::to_string(index); ///< in the trace
    unsigned share;                         ///< last assigned; a hung tower may not have received it
    std::size_t first_example = 0;          ///< index of its share's first example in the step
    std::vector<const Exchange*> exchanges; ///< of a step with the share, in order
    /// It has the current parameters, or their upload is submitted; alone, the whole state.
    bool up_to_date = false;
    bool ahead = false; ///< alone, it has begun the next step
    StepTime step_time;
    TowerTimes times;      ///< of the last step
    StepResults results{}; ///< its part of the last step's
    TowerProgress progress;
    std::function<void()> step_task, other_task; ///< what the worker does
    Worker worker;                               // last: it uses the others

private:
    void start(std::function<void()> work);
};

} // namespace towers
