// Which share of a step each tower takes, so that all finish together, decided from the towers' times.
#pragma once

#include "engine/towers/load.h"

#include <cstddef>

namespace towers {

/// Learns each tower's LoadModel from its times, step by step, and says which shares the next step should
/// have. The same times lead to the same shares.
class Balancer {
public:
    Balancer(unsigned global, unsigned group, std::vector<unsigned> start);

    /// Of the next step.
    const std::vector<unsigned>& shares() const { return now_.shares; }
    /// For a start with towers of which nothing is known, before the first step: how many examples each tower
    /// is to try, all at the same time; 0: none. Their results are of no use, and they may be fewer than a
    /// step's. Empty when enough is known, or when trying would take about as long as steps that count.
    std::vector<unsigned> probe() const;
    /// Each tower's own seconds for probe(). shares() and probe() follow them.
    void probed(std::span<const double> tower_seconds);
    /// Of the step just taken with shares(): each tower's own seconds (its work, without waiting for others;
    /// ignored where its share is 0), and the whole step's. True when shares() has changed.
    bool observe(std::span<const double> tower_seconds, double step_seconds);
    /// The tower cannot hold more than `examples`, so that shares() changes if it has more now. Throws
    /// UsageError when all towers together cannot hold the global batch any more.
    void limit(std::size_t tower, unsigned examples);
    /// What is known of a tower; none before its first measured step.
    std::optional<LoadModel> model(std::size_t tower) const { return now_.towers.at(tower).model(); }

    /// Whether shares() only tries something out for a few steps.
    bool trying() const { return trial_.has_value(); }
    /// Why a tower has nothing to do.
    struct Idle {
        bool measured;  ///< whole steps were measured with it and without it; else predicted
        double with;    ///< seconds of a step with it, or when predicted those it takes for one group
        double without; ///< seconds of a step of the others
    };
    /// None while the tower has a share, nothing is known of it, or a trial is on.
    std::optional<Idle> idle(std::size_t tower) const;

private:
    struct State {
        std::vector<unsigned> shares;
        std::vector<TowerLoad> towers;
        std::vector<double> steps; // whole steps with these shares, the oldest first
    };
    // A few steps with a tower taken out or in, or with one group for a tower that was too slow.
    struct Trial {
        enum class Of { without, with, one_group } of;
        std::size_t tower;
        State before;
        unsigned steps = 0;
    };
    struct Standing {
        unsigned most;                  // examples that it can hold
        unsigned rest = 0;              // steps before the next trial
        unsigned pause;                 // steps of rest after the next trial of whole steps
        std::optional<Idle> shut_out{}; // by whole steps, whatever its model says
    };

    void settle_probes();
    void record(std::span<const double> tower_seconds, double step_seconds);
    bool rebalance();
    bool start_trial();
    bool try_idle(std::size_t tower);
    bool try_without();
    void judge_trial();
    void judge_whole_steps();
    void judge_one_group();
    void rest_idle(std::size_t tower);

    std::vector<LoadModel> models() const;
    std::vector<unsigned> room() const;
    bool hold_all(std::span<const unsigned> most) const;
    unsigned count() const;
    double needed_gain(unsigned count) const;
    void begin(Trial::Of of, std::size_t tower, const std::vector<unsigned>& shares);
    void give(const std::vector<unsigned>& shares);
    void move(const std::vector<unsigned>& shares);

    unsigned global_, group_;
    State now_;
    std::optional<Trial> trial_;
    std::vector<Standing> standings_;
    std::vector<unsigned> start_;     // shares
    std::vector<unsigned> probed_;    // the largest probe that each tower has taken; 0: none
    std::vector<double> first_probe_; // the towers' seconds for probe() when it has been taken once
    unsigned probes_ = 0;             // sizes that have been probed
    unsigned moves_ = 0;              // of late
    unsigned calm_steps_ = 0;         // since the last move or since moves_ last fell
};

} // namespace towers
