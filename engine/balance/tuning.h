// The numbers that the balancer goes by, each with its reason.
#pragma once

#include <cstddef>

namespace towers::tuning {

/// A change of speed: that many times in a row beyond the middle half of those before by a factor.
struct SpeedChange {
    std::size_t steps;
    double factor;
};

/// How a tower's speed is learned from its times.
struct Load {
    std::size_t times = 64;     ///< of one share that are kept: chance hardly moves their median
    std::size_t points = 4;     ///< other shares that a model is fitted to; older ones may be outdated
    double near = 0.1;          ///< a share that differs by less tells nothing new: it replaces the older one
    SpeedChange jump{3, 1.2};   ///< a card that throttles: three such times in a row do not happen by chance
    SpeedChange drift{6, 1.05}; ///< a card that warms up: a smaller difference needs more times
    double largest_misfit = 0.15; ///< beyond it, the points cannot all be of one speed
    /// How much a fixed part is doubted, as the squared ratio of a point's usual error (3 %) to the usual
    /// fixed part (30 %): shares that lie close together tell little of it.
    double doubt = 0.01;
};
inline constexpr Load load;

/// What is tried before the first step.
struct Probe {
    /// Groups of a tower's even share: with fewer, a smallest share takes about as long as a step.
    unsigned least_groups = 2;
    unsigned part = 4; ///< of a share that seems right, one example in so many is tried: a quarter of a step
    /// Smallest share / the fastest tower's, from which a tower waits: it may need no share.
    double much_slower = 4;
    unsigned most_sizes = 5; ///< each costs two short steps
    double gain = 0.25;      ///< by which other shares must promise to shorten a step: one time is noisy
    double too_slow = 2;     ///< smallest share / step of the others, from which one time is enough for none
};
inline constexpr Probe probe;

/// When shares follow the towers' speeds.
struct Follow {
    double least_gain = 0.015;     ///< by which a move must promise to shorten a step: it costs recordings
    double gain_of_one_step = 0.1; ///< in addition, divided by the present shares' steps: few times are noisy
    unsigned free_moves = 4;       ///< enough to learn the speeds; each further one needs twice the steps
    unsigned calm_steps = 400;     ///< after which a move is forgotten
};
inline constexpr Follow follow;

/// When a tower is left out, or taken in again, for a trial.
struct Trial {
    unsigned settled_steps = 30;  ///< with the same shares before a trial: a trial is compared with them
    std::size_t step_window = 32; ///< whole steps that are kept for that
    std::size_t steps = 3;        ///< that count, of a trial of whole steps: their median bears one slow step
    unsigned longest = 20;        ///< steps of a trial when times are unusable
    /// Step without a tower / step with it, below which it may slow the others down by more than it adds.
    double adds_little = 1.6;
    double clearly_faster = 0.97;  ///< step after / step before for a trial to count: beyond noise
    unsigned first_pause = 500;    ///< steps between trials of whole steps; it doubles with each
    unsigned longest_pause = 8000; ///< so that a change of hours is noticed
    unsigned shortest_rest = 200;  ///< steps between trials with one group
    double rest_per_cost = 100;    ///< so that trials with one group take 1 % of the time
    double other_speed = 1.25;     ///< a time that is off its model by this factor is of another speed
};
inline constexpr Trial trial;

} // namespace towers::tuning
