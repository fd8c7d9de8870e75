// The towers' shares of each step, and the notices to the user when they change.
#pragma once

#include "engine/replica/tower_set.h"
#include "engine/shares/balancer.h"
#include "engine/shares/shares.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// Observations of a tower in a step.
struct SeenTower {
    unsigned share = 0;
    double seconds = 0; ///< its own, without waiting for others
    AtOnce at_once{};
};

/// Appends a part to a line for the user.
void add_notice(std::string& notice, const std::string& more);

/// Shares change by the towers' times, as in another run, or because a tower is lost or cannot hold its
/// share. Functions that change them return a notice for the user, or nothing.
class Assignment {
public:
    /// `towers`: the devices' ids. `group`: shares are multiples of this. `outlive`: whether the others
    /// continue without a tower whose device fails. Throws UsageError if the policy does not fit.
    Assignment(const SharePolicy& policy, const std::vector<std::string>& towers, unsigned global,
               unsigned group, bool outlive);

    /// The first shares without probes.
    const std::vector<unsigned>& first_shares() const { return first_; }
    std::vector<unsigned> shares(std::uint64_t step) const;
    /// The same with the micro-batches that are recorded with these shares. A tower that has all examples
    /// takes them alone.
    std::vector<Share> to_take(std::uint64_t step) const;

    /// With automatic shares and towers of unknown speed: the examples to try before the first step; empty:
    /// no more.
    std::vector<unsigned> probe() const;
    /// Reports a step with probe()'s examples.
    void probed(std::span<const SeenTower> towers);
    /// Call it before probing and again before the first step. Returns what the user should know.
    std::string begin(std::span<const SeenTower> towers);

    /// Reports a step and its seconds. `repeated`: it had more than one attempt, or other shares than these.
    /// `next_begun`: the step after it has been begun in the same way.
    std::string observe(std::uint64_t step, std::span<const SeenTower> towers, double seconds, bool repeated,
                        bool next_begun = false);

    /// After a failure: prepares to repeat the step, or what `repeated` names, without the tower, or with a
    /// share that fits on it. Rethrows the device's error if no tower is left or the run must not continue
    /// without one; throws DeviceError if the others cannot hold the batch.
    std::string drop(const TowerFailed& failed, std::string_view repeated = "the step");
    /// Whether the tower's device has failed.
    bool has_lost(std::size_t tower) const { return towers_[tower].lost; }

private:
    /// What the assignment knows of a tower.
    struct Standing {
        std::string name;  ///< `tower_0 (cpu)`
        unsigned held = 0; ///< the largest share that it has had in a step
        AtOnce at_once{};  ///< last reported to the user
        bool lost = false; ///< its device has failed
    };
    std::vector<double> take_note(std::span<const SeenTower> towers);
    std::vector<Share> as_recorded(std::uint64_t step) const;
    std::string tell_micro_batches(std::span<const SeenTower> towers);
    void limit(std::size_t tower, unsigned share, const TowerFailed& failed);
    std::string idle_towers() const;

    SharePolicy policy_;
    unsigned group_;
    bool outlive_;
    std::vector<unsigned> first_;
    std::vector<unsigned> announced_; ///< the shares last reported to the user
    std::vector<Standing> towers_;
    std::optional<Balancer> balancer_; ///< set if shares are automatic
};

} // namespace towers
