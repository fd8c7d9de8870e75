// Everything known about the towers, which the balancer's strategies read and change.
#pragma once

#include "engine/shares/load.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace towers {

using Shares = std::vector<unsigned>;

/// Why a tower is idle.
struct Idle {
    bool measured;  ///< true: by measured whole steps with and without it; false: by prediction
    double with;    ///< seconds of a step with it, or predicted for one group on it
    double without; ///< seconds of a step without it
};

struct Standings {
    /// The current shares and the measurements with them.
    struct Present {
        Shares shares;
        std::vector<TowerLoad> loads;
        std::vector<double> steps; ///< seconds of whole steps, the oldest first
    };

    Standings(unsigned global_batch, unsigned group_size, Shares start);

    unsigned global, group; ///< examples
    Present now;
    Shares most;                               ///< by tower: the most examples that it can hold
    std::vector<std::optional<Idle>> shut_out; ///< by measured whole steps, whatever its model says

    std::size_t towers() const { return most.size(); }
    /// Whether a tower can hold at least one group.
    bool can_work(std::size_t tower) const { return most[tower] >= group; }
    /// Adds a step's times, except those of a share's first step. Returns whether a tower's speed has
    /// changed.
    bool add(std::span<const double> tower_seconds, double step_seconds);
    /// Sets the shares of the following steps.
    void give(const Shares& shares);

    /// The towers' models; unknown towers get the mean speed of the others.
    std::vector<LoadModel> models() const;
    /// The largest share that each tower may get. Towers that are unknown or shut out may get one only if the
    /// others cannot hold a whole step.
    Shares room() const;
    /// Whether these largest shares together hold a step's examples.
    bool hold_all(std::span<const unsigned> largest) const;
    /// The shares with which all towers finish together. Throws UsageError if they cannot hold a step.
    Shares best() const { return balanced_shares(models(), global, group, room()); }
    /// The predicted seconds of a step with these shares.
    double seconds(const Shares& shares) const { return slowest_seconds(models(), shares); }
    /// Current step / predicted step with other shares, minus 1.
    double gain(const Shares& shares) const { return seconds(now.shares) / seconds(shares) - 1; }
    /// The smallest number of times that any working tower has with the current shares.
    unsigned count() const;
};

} // namespace towers
