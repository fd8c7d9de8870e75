// Which rank updates which part of the state.
#pragma once

#include "engine/plan/plan.h"
#include "engine/plan/state.h"

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace towers {

/// A part of a bucket that one rank updates: its owner.
struct Slice {
    ArenaRange range; ///< of the variables
    std::size_t bucket;
    unsigned owner;
};

/// Cuts each bucket into slices of nearly the same size, at most one for each rank and none so small that
/// carrying it is not worth a message, and deals them to the ranks in turn. `whole`: one rank updates
/// everything.
std::vector<Slice> deal_slices(std::span<const ArenaRange> buckets, unsigned ranks, bool whole);

/// How sums of gradients reach the owners of slices, and new parameters come back. Ranks on one host add up
/// there first, so that each byte crosses the network once for all of them.
class Routes {
public:
    /// `hosts`: a number for each rank, the same for those on one host. Empty: each is on its own.
    Routes(unsigned ranks, std::vector<unsigned> hosts);

    /// The rank to which a rank gives its sums of another one's slices, and which gives it the parameters:
    /// the owner itself on the same host, else one of the rank's own host, which may be this rank. That one
    /// gives to the owner, and so do all whose host has one rank.
    unsigned next(unsigned rank, unsigned owner) const;
    bool share_host(unsigned a, unsigned b) const { return hosts_[a] == hosts_[b]; }
    /// Its host's, itself among them, in ascending order.
    const std::vector<unsigned>& ranks_beside(unsigned rank) const { return ranks_.at(hosts_[rank]); }

private:
    std::vector<unsigned> hosts_;
    std::map<unsigned, std::vector<unsigned>> ranks_; ///< by host
    std::vector<std::size_t> places_;                 ///< of each rank among its host's
};

/// The slices' parts that are messages, in their order. Those of the first `rounded` bytes of the variables
/// have half as many bytes as the part.
std::vector<Slice> messages_of(const std::vector<Slice>& slices, std::size_t rounded = 0);
/// The same slices; one in which an offset lies ends and begins there.
std::vector<Slice> cut_at(std::size_t offset, const std::vector<Slice>& slices);

} // namespace towers
