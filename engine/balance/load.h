// How long a tower takes for its share of a step, learned from its times.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace towers {

/// The seconds that a tower takes for a share: fixed + per_example * examples; nothing for no examples.
struct LoadModel {
    double fixed = 0;
    double per_example = 0;
    double seconds(unsigned examples) const { return examples == 0 ? 0 : fixed + per_example * examples; }
};

/// A share, and the seconds that a tower took for it.
struct LoadPoint {
    unsigned examples;
    double seconds;
};

/// The model that is nearest to these points, at least one, by relative errors. One alone tells of no fixed
/// part.
LoadModel fit_load(std::span<const LoadPoint> points);

/// Shares in whole groups of `group` examples that add up to `global` and make the last tower finish as early
/// as possible, exactly. A tower that would finish later than all others do without it gets none. `most` is
/// the largest share that each tower can hold. Throws UsageError when they cannot hold `global` together.
std::vector<unsigned> balanced_shares(std::span<const LoadModel> models, unsigned global, unsigned group,
                                      std::span<const unsigned> most);

/// When the last tower finishes, in seconds.
double slowest_seconds(std::span<const LoadModel> models, std::span<const unsigned> shares);

/// Whether a measured time can be used: a coarse clock shows 0 seconds, a broken one worse.
bool usable_seconds(double seconds);

/// The middle one; the smaller of the two in the middle, since times err upwards. Of at least one.
double median_seconds(std::vector<double> times);

/// What is known of one tower's speed.
class TowerLoad {
public:
    explicit TowerLoad(unsigned share) : share_(share) {}

    unsigned share() const { return share_; }
    /// The share of the steps to come.
    void give(unsigned share);
    /// The seconds of a step with the present share. Those of the first step with a share it never had, which
    /// holds recording and compilation, do not count, nor do unusable ones. True when the tower turns out to
    /// have another speed than before.
    bool add(double seconds);
    /// How many times count since the present share was given or the speed has changed.
    unsigned count() const { return count_; }
    /// Whether the next step's time counts.
    bool warm() const { return share_ == 0 || had_.contains(share_); }
    /// Exact at the present share. None before a time counts.
    std::optional<LoadModel> model() const;
    /// Assumes that the times of other shares are of another speed: scales them so that their model gives the
    /// present share's time.
    void adopt_present_speed();
    /// Whether at least two shares have been measured, so that the fixed part is known.
    bool knows_fixed() const { return points_.size() + (times_.empty() ? 0 : 1) >= 2; }

private:
    std::vector<LoadPoint> points() const;     ///< of all shares, the present one last
    double keep_last_times(std::size_t count); ///< returns the median of the others
    void scale_others(double scale);

    unsigned share_, count_ = 0;
    std::vector<LoadPoint> points_; ///< of the last few other shares, the oldest first
    std::vector<double> times_;     ///< of the last steps with the present share, the oldest first
    std::set<unsigned> had_;        ///< the shares that it has had
};

} // namespace towers
