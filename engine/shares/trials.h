// Trials of a few steps, for what the towers' models cannot predict.
#pragma once

#include "engine/shares/follower.h"
#include "engine/shares/standings.h"
#include "engine/shares/tuning.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace towers {

/// One trial at a time:
///
/// | trial     | a tower that        | it asks                                      | steps that count |
/// | --------- | ------------------- | -------------------------------------------- | ---------------- |
/// | without   | adds little         | are whole steps faster without it?           | 3; up to 9, the  |
/// |           |                     |                                              | less it adds     |
/// | with      | had been left out   | are whole steps faster with it by now?       | 3                |
/// | one group | seemed too slow     | does its own time promise a gain by now?     | 1 or more        |
///
/// After a trial a tower rests: after whole steps twice as long each time, after one group in proportion to
/// its cost.
class Trials {
public:
    explicit Trials(std::size_t towers) : rests_(towers) {}

    bool running() const { return trial_.has_value(); }
    /// Begins the trial that is due, if any, and sets its shares in `standings`.
    void start(Standings& standings);
    /// Call it after each step of a trial. Ends the trial when it can be judged. Returns shares if they are
    /// worth a move.
    std::optional<Shares> judge(Standings& standings, const Follower& follower);
    /// Cancels a trial.
    void cancel(Standings& standings);
    /// Makes a tower without a share rest, the longer the more a trial with one group would cost.
    void rest(const Standings& standings, std::size_t tower);
    /// Reports a step, in a trial or not.
    void step_taken();

private:
    enum class Kind { without, with, one_group };
    struct Trial {
        Kind kind;
        std::size_t tower;
        Standings::Present before;
        double adds = INFINITY; ///< predicted step without the tower / with it, minus 1
        unsigned steps = 0;

        /// So many measured steps decide.
        std::size_t needed() const;
        /// Step after / before, below which the tower stays out.
        double threshold() const;
    };
    struct Rest {
        unsigned steps = 0;                         ///< steps of rest left before its next trial
        unsigned pause = tuning::trial.first_pause; ///< the rest after its next trial of whole steps
    };

    void begin(Kind kind, std::size_t tower, Standings& standings, const Shares& shares);
    void try_idle(Standings& standings, std::size_t tower);
    void try_without(Standings& standings);
    void judge_whole_steps(Standings& standings);
    std::optional<Shares> judge_one_group(Standings& standings, const Follower& follower);

    std::optional<Trial> trial_;
    std::vector<Rest> rests_; ///< of each tower
};

} // namespace towers
