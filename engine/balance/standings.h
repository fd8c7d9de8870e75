// What is known of all towers at a moment: the strategies of the balancer read it and change it.
#pragma once

#include "engine/balance/load.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace towers {

using Shares = std::vector<unsigned>;

/// Why a tower has nothing to do.
struct Idle {
    bool measured;  ///< whole steps were measured with it and without it; else predicted
    double with;    ///< seconds of a step with it, or when predicted those it takes for one group
    double without; ///< seconds of a step of the others
};

struct Standings {
    /// The present shares and what steps with them have shown.
    struct Present {
        Shares shares;
        std::vector<TowerLoad> loads;
        std::vector<double> steps; ///< seconds of whole steps, the oldest first
    };

    Standings(unsigned global_batch, unsigned group_size, Shares start);

    unsigned global, group; ///< examples
    Present now;
    Shares most;                               ///< examples that each tower can hold
    std::vector<std::optional<Idle>> shut_out; ///< by whole steps, whatever the tower's model says

    std::size_t towers() const { return most.size(); }
    /// Whether a tower can hold a group.
    bool can_work(std::size_t tower) const { return most[tower] >= group; }
    /// Takes a step's times, those of a share's first step excepted. True when a tower has another speed now.
    bool add(std::span<const double> tower_seconds, double step_seconds);
    /// Of the steps to come.
    void give(const Shares& shares);

    /// Each tower's; of unknown towers the others' speed.
    std::vector<LoadModel> models() const;
    /// The largest share that each tower may have. Those that are unknown or shut out may have one only if
    /// the others cannot hold a whole step.
    Shares room() const;
    /// Whether these largest shares hold a step's examples together.
    bool hold_all(std::span<const unsigned> largest) const;
    /// The shares by which all towers finish together. UsageError when they cannot hold a step.
    Shares best() const { return balanced_shares(models(), global, group, room()); }
    /// Those of a step with these shares.
    double seconds(const Shares& shares) const { return slowest_seconds(models(), shares); }
    /// The present step / that with other shares, less 1.
    double gain(const Shares& shares) const { return seconds(now.shares) / seconds(shares) - 1; }
    /// How many times count with the present shares, of the working tower that has the fewest.
    unsigned count() const;
};

} // namespace towers
