// Which share of each step every tower of a run has, and what the user is told when that changes.
#pragma once

#include "engine/balance/balancer.h"
#include "engine/towers/shares.h"
#include "engine/towers/tower_set.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace towers {

/// What is seen of a tower in a step.
struct SeenTower {
    unsigned share = 0;
    double seconds = 0; ///< its own, without waiting for others
    AtOnce at_once{};
};

/// Adds a part to a line for the user.
void add_notice(std::string& notice, const std::string& more);

/// Shares change by the towers' times, as another run had them, or because a tower is lost or cannot hold its
/// share. What changes them returns a notice for the user, or nothing.
class Assignment {
public:
    /// `towers`: their devices' ids. `group`: the examples that stay together. `outlive`: whether the others
    /// go on without a tower whose device fails. Throws UsageError when the policy does not fit.
    Assignment(const SharePolicy& policy, const std::vector<std::string>& towers, unsigned global,
               unsigned group, bool outlive);

    /// Those to begin with, if nothing is tried before.
    const std::vector<unsigned>& first_shares() const { return first_; }
    std::vector<unsigned> shares(std::uint64_t step) const;

    /// What towers of automatic shares, of which nothing is known, are to try before the first step; empty:
    /// nothing more.
    std::vector<unsigned> probe() const;
    /// The towers have taken a step with those.
    void probed(std::span<const SeenTower> towers);
    /// The first step comes next.
    std::string begin(std::span<const SeenTower> towers);

    /// After a step, which took so many seconds. `repeated`: it had more than one attempt.
    std::string observe(std::uint64_t step, std::span<const SeenTower> towers, double seconds, bool repeated);

    /// After a failure: arranges that the step can be repeated without the tower, or with a share that it can
    /// hold. Rethrows the device's error when no tower is left or the run is not to outlive one, and throws
    /// DeviceError when the others cannot hold the batch.
    std::string let_go(const TowerFailed& failed);

private:
    /// What is known of a tower.
    struct Standing {
        std::string name;           ///< `tower_0 (cpu)`
        unsigned held = 0;          ///< the largest share that it has had in a step
        unsigned micro_batches = 1; ///< that the user knows of
        bool lost = false;          ///< its device has failed
    };
    std::vector<double> take_note(std::span<const SeenTower> towers);
    std::string tell_micro_batches(std::span<const SeenTower> towers);
    void limit(std::size_t tower, unsigned share, const TowerFailed& failed);
    std::string idle_towers() const;

    SharePolicy policy_;
    unsigned group_;
    bool outlive_;
    std::vector<unsigned> first_;
    std::vector<unsigned> announced_; ///< the shares that the user knows of
    std::vector<Standing> towers_;
    std::optional<Balancer> balancer_; ///< of automatic shares
};

} // namespace towers
