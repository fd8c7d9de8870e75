// The towers of several ranks. Rank 0 decides what happens next and tells the others, which follow; within a
// step no rank waits for a decision: what they must agree on is in the votes at its end.
#pragma once

#include "engine/ranks/courier.h"
#include "engine/replica/group.h"
#include "engine/replica/tower_ranks.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace towers {

/// What a rank that follows needs to do what rank 0 says.
struct Followed {
    TowerGroup& towers; ///< its own
    /// The run's batch after so many examples.
    std::function<Batch(std::uint64_t examples)> batch;
    /// The run's test examples with their slots and labels.
    std::function<std::vector<Example>()> tests;
    std::function<bool()> tune;           ///< see TowerSet::tune()
    std::function<std::string()> choices; ///< then, as Tuning::to_json()
    Trace* trace = nullptr;               ///< of this rank; may be null
};

/// Does what rank 0 says until its RankedTowers are gone. Throws PeerGone, and what the towers throw but
/// TowerFailed, of which rank 0 hears.
void follow(Courier& courier, const TowerRanks& ranks, const Followed& followed);

/// On rank 0.
class RankedTowers final : public TowerSet {
public:
    /// `own`: of rank 0. The others must follow(). `trace`: of rank 0, whose steps the others' traces keep;
    /// may be null.
    RankedTowers(Courier& courier, TowerRanks ranks, std::unique_ptr<TowerGroup> own,
                 std::shared_ptr<const Trace> trace = nullptr);
    ~RankedTowers() override;

    std::size_t size() const override { return ranks_.all(); }
    TowerFacts facts(std::size_t index) const override;
    AtOnce at_once(std::size_t index) const override { return facts_[index].at_once; }
    const Tower* own(std::size_t index) const override {
        return index < own_->size() ? own_->own(index) : nullptr;
    }
    void take(std::span<const Share> shares) override;
    std::vector<unsigned> shares() const override;
    void record_again() override;
    bool tune(const std::function<bool()>& own) override;
    /// Of the other ranks, each as its Tuning::to_json(), after tune().
    const std::vector<std::string>& choices() const { return choices_; }
    StepResults step(const StepWork& work, const StepWork* next) override;
    bool is_ahead() const override { return false; }
    void dry_run(const StepNumbers& numbers, const Batch& batch) override;
    bool test(const std::shared_ptr<TestPass>& pass) override;
    void summarize(const std::shared_ptr<SummaryPass>& pass) override;
    const TowerTimes& times(std::size_t tower) const override { return times_[tower]; }
    const HostTimes& host_times() const override { return own_->host_times(); }
    std::vector<float> losses(const StepResults& results) const override;
    Culprit find_culprit(const StepResults& results) const override;
    void load(std::span<const float> state) override;
    void save(std::span<float> state) override;
    void save_gradients(std::span<float> gradients) override;

private:
    std::vector<Bytes> answers() const;
    bool hear(const std::function<void()>& own);
    void take_facts();
    void take_reports();
    void tell(std::uint64_t order, const StepNumbers& numbers, const Batch& batch);

    Courier& courier_;
    const TowerRanks ranks_;
    std::unique_ptr<TowerGroup> own_;
    const std::shared_ptr<const Trace> trace_;
    std::vector<Share> shares_;
    bool taken_ = false; ///< by all towers
    std::vector<TowerFacts> facts_;
    std::vector<TowerTimes> times_;
    std::size_t examples_ = 0;         ///< of the last step
    std::vector<std::string> choices_; ///< as the last order has changed them
};

} // namespace towers
