// A model of the time that a tower takes for its share, fitted to measured times.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace towers {

/// The seconds that a tower takes for a share: fixed + per_example * examples; 0 for no examples.
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

/// Fits a model to at least one point by least squares of relative errors. For a single point, the fixed part
/// is 0.
LoadModel fit_load(std::span<const LoadPoint> points);

/// The optimal shares: whole groups of `group` examples that add up to `global` and make the last tower
/// finish as early as possible. A tower gets none if even one group on it would take longer than the others
/// need for everything. `most`: the largest share that each tower can hold. Throws UsageError if together
/// they cannot hold `global`.
std::vector<unsigned> balanced_shares(std::span<const LoadModel> models, unsigned global, unsigned group,
                                      std::span<const unsigned> most);

/// When the last tower finishes, in seconds.
double slowest_seconds(std::span<const LoadModel> models, std::span<const unsigned> shares);

/// Whether a measured time is finite and positive; a coarse clock may give 0, a broken one anything.
bool usable_seconds(double seconds);

/// The median of at least one time; of two in the middle the smaller, since disturbances only add time.
double median_seconds(std::vector<double> times);

/// One tower's measured times and the model fitted to them.
class TowerLoad {
public:
    explicit TowerLoad(unsigned share) : share_(share) {}

    unsigned share() const { return share_; }
    /// Sets the share of the following steps.
    void give(unsigned share);
    /// Adds the seconds of a step with the current share. Ignores unusable times, and the first step with a
    /// new share, which includes recording and compilation. Returns whether the tower's speed has changed.
    bool add(double seconds);
    /// How many times have been added since the share or the speed last changed.
    unsigned count() const { return count_; }
    /// Whether add() will use the next step's time.
    bool warm() const { return share_ == 0 || had_.contains(share_); }
    /// The fitted model, exact at the current share; none before the first time.
    std::optional<LoadModel> model() const;
    /// Treats the times of other shares as measured at another speed: scales them so that their model gives
    /// the current share's time.
    void adopt_present_speed();
    /// Whether at least two shares have been measured, so that the fixed part is known.
    bool knows_fixed() const { return points_.size() + (times_.empty() ? 0 : 1) >= 2; }

private:
    std::vector<LoadPoint> points() const;     ///< of all shares, the current one last
    double keep_last_times(std::size_t count); ///< returns the median of the others
    void scale_others(double scale);

    unsigned share_, count_ = 0;
    std::vector<LoadPoint> points_; ///< of the latest other shares, the oldest first
    std::vector<double> times_;     ///< of the latest steps with the current share, the oldest first
    std::set<unsigned> had_;        ///< the shares that it has ever had
};

} // namespace towers
