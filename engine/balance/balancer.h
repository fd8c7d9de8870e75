// Which share of a step each tower takes, so that all finish together, decided from the towers' times.
#pragma once

#include "engine/balance/follower.h"
#include "engine/balance/probes.h"
#include "engine/balance/standings.h"
#include "engine/balance/trials.h"

namespace towers {

/// Learns each tower's LoadModel from its times, step by step, and says which shares the next step should
/// have. The same times lead to the same shares. tuning.h has the numbers.
///
/// | state     | decides  | shares()                     | it ends when                       | next     |
/// | --------- | -------- | ---------------------------- | ---------------------------------- | -------- |
/// | probing   | Probes   | what the probes promise      | probe() is empty                   | settling |
/// | settling  | Follower | all finish together          | others promise enough: a move      | settling |
/// |           |          |                              | they had 30 steps                  | settled  |
/// | settled   | Follower | the same                     | a speed changes: a move            | settling |
/// |           | Trials   |                              | a tower has rested: a trial        | trying   |
/// | trying    | Trials   | the trial's                  | its steps are enough, or too many  |          |
/// |           |          |                              | - it was better: its shares        | settling |
/// |           |          |                              | - it was not: those from before it | settled  |
///
/// A caller may leave probing out.
class Balancer {
public:
    /// `start`: the shares of a first step; examples, whole groups of `group` that add up to `global`.
    Balancer(unsigned global, unsigned group, const Shares& start)
        : standings_(global, group, start), probes_(start), trials_(start.size()) {}

    /// Of the next step.
    const Shares& shares() const { return standings_.now.shares; }
    /// For a start with towers of which nothing is known, before the first step: how many examples each tower
    /// is to try, all at the same time; 0: none. Their results are of no use, and they may be fewer than a
    /// step's. Empty when enough is known, or when trying would take about as long as steps that count.
    Shares probe() const { return probes_.next(standings_); }
    /// Each tower's own seconds for probe(). shares() and probe() follow them.
    void probed(std::span<const double> tower_seconds);
    /// Of the step just taken with shares(): each tower's own seconds (its work, without waiting for others;
    /// ignored where its share is 0), and the whole step's. True when shares() has changed.
    bool observe(std::span<const double> tower_seconds, double step_seconds);
    /// The tower cannot hold more than `examples`, so that shares() changes if it has more now. Throws
    /// UsageError when all towers together cannot hold the global batch any more.
    void limit(std::size_t tower, unsigned examples);
    /// What is known of a tower; none before its first measured step.
    std::optional<LoadModel> model(std::size_t tower) const { return standings_.now.loads.at(tower).model(); }

    /// Whether shares() only tries something out for a few steps.
    bool trying() const { return trials_.running(); }
    /// None while the tower has a share, nothing is known of it, or a trial is on.
    std::optional<Idle> idle(std::size_t tower) const;

private:
    void move(const Shares& shares);

    Standings standings_;
    Probes probes_;
    Follower follower_;
    Trials trials_;
};

} // namespace towers
