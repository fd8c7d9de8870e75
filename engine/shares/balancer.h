// Chooses the towers' shares from their measured times, so that all finish together.
#pragma once

#include "engine/shares/follower.h"
#include "engine/shares/probes.h"
#include "engine/shares/standings.h"
#include "engine/shares/trials.h"

namespace towers {

/// Fits each tower's LoadModel to its times, step by step, and chooses the shares of the next step. The same
/// times always give the same shares. tuning.h has the numbers.
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
/// A caller may skip probing.
class Balancer {
public:
    /// `start`: the first step's shares, in examples: whole groups of `group` that add up to `global`.
    Balancer(unsigned global, unsigned group, const Shares& start)
        : standings_(global, group, start), probes_(start), trials_(start.size()) {}

    /// The shares of the next step.
    const Shares& shares() const { return standings_.now.shares; }
    /// Before the first step, while the towers' speeds are unknown: how many examples each tower should try
    /// (0: none), all towers at the same time. The examples need not add up to a batch, and their results are
    /// not used. Empty when enough is known, or when trying would take about as long as real steps.
    Shares probe() const { return probes_.next(standings_); }
    /// Reports each tower's own seconds for probe(), and updates shares() and probe().
    void probed(std::span<const double> tower_seconds);
    /// Reports the step just taken with shares(): each tower's own seconds (without waiting for others;
    /// ignored if its share is 0), and the whole step's. Returns whether shares() has changed.
    bool observe(std::span<const double> tower_seconds, double step_seconds);
    /// Limits the tower to `examples`, and changes shares() if it has more now. Throws UsageError if all
    /// towers together can no longer hold the global batch.
    void limit(std::size_t tower, unsigned examples);
    /// Whether shares() is a trial of a few steps.
    bool trying() const { return trials_.running(); }
    /// None while the tower has a share or no measured speed, or during a trial.
    std::optional<Idle> idle(std::size_t tower) const;

private:
    void move(const Shares& shares);

    Standings standings_;
    Probes probes_;
    Follower follower_;
    Trials trials_;
};

} // namespace towers
