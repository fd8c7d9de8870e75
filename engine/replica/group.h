// Several towers that take steps together.
#pragma once

#include "engine/clock.h"
#include "engine/liveness/group_watchdog.h"
#include "engine/replica/tower_set.h"
#include "engine/replica/tower_thread.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// How the threads of a group and its reducer wait for each other within a step: they may spin if each has a
/// processor of its own, so not beside towers that compute on the host's processors.
struct Waiting {
    Milestones::Spin spin = Milestones::Spin::zero();
    unsigned most_threads; ///< of the reducer
};

/// See make_tower_group(). A step is shared by several towers, or one has all examples and works alone: it
/// updates the state on its device, and the host has a copy of it whenever step() returns. Which of both
/// follows from the shares alone.
class TowerGroup final : public TowerSet {
public:
    TowerGroup(std::vector<std::unique_ptr<Tower>> towers, const UpdateSpec& update,
               const TowerSetOptions& options);
    ~TowerGroup() override;

    std::size_t size() const override { return threads_.size(); }
    TowerFacts facts(std::size_t index) const override { return facts_of(*threads_[index]->tower); }
    AtOnce at_once(std::size_t index) const override { return threads_[index]->tower->at_once(); }
    const Tower* own(std::size_t index) const override { return threads_[index]->tower.get(); }

    void take(std::span<const Share> shares) override;
    /// Of each step, so many examples are for towers of earlier ranks.
    void leave_first(std::size_t examples) { others_first_ = examples; }
    /// What a rank tells of each of its towers in a step.
    struct Report {
        TowerTimes times;
        float cross_entropy = 0; ///< its part of the global batch's
        std::uint32_t share = 0;
    };
    /// Of all ranks in the last step, each rank's towers in turn; without ranks: none.
    const std::vector<Report>& reports() const { return reports_; }
    std::vector<unsigned> shares() const override {
        std::vector<unsigned> shares;
        for (const auto& thread : threads_) shares.push_back(thread->share);
        return shares;
    }

    void record_again() override;
    StepResults step(const StepWork& work, const StepWork* next) override;
    bool is_ahead() const override { return ahead_; }
    void dry_run(const StepNumbers& numbers, const Batch& batch) override {
        bring_home();
        work(numbers, batch, false);
    }
    bool test(const std::shared_ptr<TestPass>& pass) override;

    void summarize(const std::shared_ptr<SummaryPass>& pass) override;

    const TowerTimes& times(std::size_t tower) const override { return threads_[tower]->times; }
    const HostTimes& host_times() const override { return host_times_; }
    std::vector<float> losses(const StepResults& results) const override;
    Culprit find_culprit(const StepResults& results) const override;

    void load(std::span<const float> state) override;
    void save(std::span<float> state) override;
    void save_gradients(std::span<float> gradients) override;

private:
    OpenOptions reducer_host(OpenOptions host) const;
    StepVerdict work(const StepNumbers& numbers, const Batch& batch, bool counts);
    void prepare(const StepNumbers& numbers, const Batch& batch);
    StepResults step_alone(const StepWork& work, const StepWork* next);
    bool is_alone() const { return !shared_.active.empty() && shared_.active[0]->is_alone(); }
    void bring_home();
    void watch(TowerThread& thread, const ExpectedTime& expected);
    void wait_for_end_of(TowerThread& thread);
    bool give_buckets();
    bool wait_for_all(Milestones TowerProgress::*what, std::size_t count);
    std::vector<std::byte> report(bool all_well, Clock::time_point begin) const;
    void take_reports(const std::vector<std::vector<std::byte>>& messages, bool counts);
    void throw_failures();
    void throw_failure_of(TowerThread& thread);
    Clock::time_point last_end(Clock::time_point begin) const;
    static TowerTimes times_of(const TowerThread& thread, Clock::time_point begin, Clock::time_point last);
    void distribute_times(Clock::time_point begin);
    TowerFailed no_answer(const TowerThread& thread) const;

    PhaseClock caller_;
    HostTimes host_times_;
    const StateLayout& layout_;
    GroupWatchdog watchdog_;
    OpenOptions host_;
    Waiting waiting_;
    std::unique_ptr<GradientReducer> reducer_;
    GroupStep shared_;
    std::vector<std::string> bucket_names_; ///< in the trace
    std::vector<TowerProgress*> progress_;  ///< of the step's towers
    std::vector<std::size_t> indices_;      ///< of the step's towers
    std::vector<float> cross_entropies_;    ///< by tower
    std::vector<Share> given_;              ///< the towers' shares as take() got them
    /// The state, in staging memory of the tower that works alone; empty: the reducer has it.
    std::span<const float> kept_;
    bool ahead_ = false;       ///< that tower has begun the next step
    std::size_t examples_ = 0; ///< in the last step, including those beyond the shares
    std::size_t others_first_ = 0;
    const bool has_ranks_;
    std::vector<Report> reports_;
    std::vector<std::unique_ptr<TowerThread>> threads_; // last: their threads use the others
};

} // namespace towers
