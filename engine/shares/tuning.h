// The balancer's constants, each with its reason.
#pragma once

#include <cstddef>

namespace towers::tuning {

/// A tower's speed has changed if this many consecutive times all lie outside the middle half of the earlier
/// ones, by this factor.
struct SpeedChange {
    std::size_t steps;
    double factor;
};

/// How a tower's model is fitted to its times.
struct Load {
    std::size_t times = 64;     ///< kept per share: enough for a stable median
    std::size_t points = 4;     ///< other shares that a model is fitted to; older ones may be outdated
    double near = 0.1;          ///< a share that differs by less replaces the older one: it tells nothing new
    SpeedChange jump{3, 1.2};   ///< a card that throttles: three such times in a row do not happen by chance
    SpeedChange drift{6, 1.05}; ///< a card that warms up: a smaller difference needs more times
    double largest_misfit = 0.15; ///< above it, the points must be from different speeds
    /// Regularizes the fixed part, since shares close together say little about it: the squared ratio of a
    /// point's usual error (3 %) to the usual fixed part (30 %).
    double doubt = 0.01;
};
inline constexpr Load load;

/// Probes before the first step.
struct Probe {
    /// The least groups in a tower's even share; with fewer, one group takes about as long as a step.
    unsigned least_groups = 2;
    unsigned part = 4; ///< a probe has one in this many examples of the predicted share: a quarter of a step
    /// Time of one group / the fastest tower's, above which a tower is not probed further, since it may get
    /// no share.
    double much_slower = 4;
    unsigned most_sizes = 5; ///< each costs two short steps
    double gain = 0.25;      ///< predicted gain that other shares need; large, since single times are noisy
    double too_slow = 2;     ///< one group / step of the others, above which one probe rules a tower out
};
inline constexpr Probe probe;

/// When shares follow the towers' speeds
struct Follow {
    double least_gain = 0.015;     ///< predicted gain that a move needs, since it costs recordings
    double gain_of_one_step = 0.1; ///< added, divided by steps with the current shares: few times are noisy
    unsigned free_moves = 4;       ///< enough to learn the speeds; each further move needs twice the steps
    unsigned calm_steps = 400;     ///< steps after which a move is forgotten
};
inline constexpr Follow follow;

/// When a tower is left out, or taken in again, for a trial.
struct Trial {
    unsigned settled_steps = 30;  ///< with equal shares before a trial, which is compared with them
    std::size_t step_window = 32; ///< whole steps to keep for that
    std::size_t steps = 3;        ///< measured in a trial of whole steps: tolerates one slow step
    std::size_t most_steps = 9; ///< of a trial without a tower that hardly adds anything, which costs little
    unsigned longest = 20;      ///< steps of a trial, if times are unusable
    /// Predicted step without a tower / with it, below which the tower may slow the others down by more than
    /// it adds.
    double adds_little = 1.6;
    double clearly_faster = 0.97;  ///< step after / before, below which a trial is successful: beyond noise,
                                   ///< unless a mistake would cost less than that
    unsigned first_pause = 500;    ///< steps between trials of whole steps; it doubles with each
    unsigned longest_pause = 8000; ///< so that changes within hours are noticed
    unsigned shortest_rest = 200;  ///< steps between trials with one group
    double rest_per_cost = 100;    ///< so such trials take 1 % of the time
    double other_speed = 1.25;     ///< a time that differs from its model by this factor means another speed
};
inline constexpr Trial trial;

} // namespace towers::tuning
