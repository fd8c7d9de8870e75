// Several towers that take a step together: a thread for each, and the stage that adds up what they make.
#pragma once

#include "engine/towers/averaging.h"
#include "engine/towers/exchange.h"
#include "engine/towers/patience.h"
#include "engine/towers/progress.h"
#include "engine/towers/tower.h"
#include "engine/towers/worker.h"
#include "engine/trace/trace.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers {

using Towers = std::vector<std::unique_ptr<Tower>>;

/// The device of one of several towers failed.
struct TowerFailed : DeviceError {
    std::size_t tower;
    unsigned share; ///< when it was being prepared for that, such as for want of memory; 0: within a step
    bool out_of_memory, lost;
    TowerFailed(const DeviceError& error, std::size_t its, unsigned wanted)
        : DeviceError(error), tower(its), share(wanted),
          out_of_memory(dynamic_cast<const OutOfMemory*>(&error) != nullptr),
          lost(dynamic_cast<const DeviceLost*>(&error) != nullptr) {}
};

class TowerGroup {
public:
    /// `towers` and what `update` names must outlive this. `host`: see AveragingStage.
    /// `timeout`: see Patience; a tower that gives no answer counts as failed. `trace`: null, or gets what
    /// the threads do and wait for; it must outlive this, and has the track of the thread that calls step().
    TowerGroup(Towers& towers, const OpenOptions& host, const UpdateSpec& update, double timeout,
               Trace* trace, Trace::Track caller);
    TowerGroup(const TowerGroup&) = delete;
    TowerGroup& operator=(const TowerGroup&) = delete;
    /// Keeps a tower that hangs, and what its thread uses, until the program ends: nothing can stop it.
    ~TowerGroup();

    /// Gives each tower its share, at least one of which is not 0; between steps. After TowerFailed, call it
    /// again before a step.
    void take(std::span<const unsigned> shares);

    /// One step of all that have a share; prepare() has been called. Waits for all towers before an exception
    /// leaves, such as TowerFailed. After one, and when the results are not finite, the state is the one from
    /// before. Without `keep` it is in any case, the results are of no use, and shares() need not be a whole
    /// batch.
    StepResults step(const StepNumbers& numbers, bool keep = true);

    /// As taken, which a tower that hangs does not know.
    std::span<const unsigned> shares() const { return shares_; }
    /// Of the last step: each tower's. One without a share waits for the others.
    std::span<const TowerTimes> times() const { return times_; }
    /// Of the last step: what the calling thread waited for towers, and what it took to average.
    double waited() const { return waited_; }
    double averaging() const { return averaging_; }

    /// What made the last step infinite or NaN.
    struct Culprit {
        std::size_t tower;
        float loss; ///< the tower's
        std::string what;
        bool of_all = false; ///< what the towers make together, each one's being finite; `tower` is any
    };
    Culprit find_culprit() const;

    /// Whether the towers need values of each other within a step.
    bool exchanges() const { return !exchanges_[0].empty(); }

    std::span<const float> state() const { return stage_.state(); }
    void load(std::span<const float> state);
    void save_gradients(std::span<float> gradients) { stage_.save_gradients(gradients); }

private:
    void run(std::size_t tower, bool renewed);
    bool exchange(std::size_t tower, std::span<const Exchange> own);
    TowerFailed no_answer(std::size_t tower) const;
    void end_times(Clock::time_point begin);
    bool await(Milestones TowerProgress::*what, std::size_t tower, std::size_t count);
    void abandon_hanging(Milestones TowerProgress::*awaited);

    Towers& towers_;
    Trace* trace_; ///< may be null
    Trace::Track caller_;
    std::vector<Trace::Track> tracks_; ///< of each tower's thread
    const StateLayout& layout_;
    AveragingStage stage_;
    std::vector<unsigned> shares_;
    std::vector<std::size_t> active_; ///< those with a share
    std::vector<TowerTimes> times_;
    double waited_ = 0, averaging_ = 0;
    Patience patience_;
    Patience::Limit limit_; ///< of this step
    double left_ = 0;       ///< seconds of it
    bool waiters_woken_ = false;
    std::vector<bool> hanging_;
    Milestones averaged_;       ///< buckets whose new parameters have been handed to the towers
    std::vector<bool> renewed_; ///< whether a tower has the present parameters, or they are on their way
    std::vector<std::vector<const Exchange*>> exchanges_;  ///< each active tower's, in order
    std::vector<std::unique_ptr<TowerProgress>> progress_; ///< of each tower
    std::vector<std::unique_ptr<Worker>> workers_;         // last: they use the others
};

/// Whether a thread hangs in a driver, so that the program must end without the usual clean-up.
bool any_tower_hangs();

} // namespace towers
