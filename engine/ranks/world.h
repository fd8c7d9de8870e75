// The ranks of a run: who they are, where they run, and what of a machine each of them may use.
#pragma once

#include "engine/ranks/courier.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace towers {

/// A rank and its place.
struct Rank {
    std::string host;
    std::string version;              ///< of its program
    std::string machine;              ///< the same for ranks on one
    int process = 0;                  ///< its number, if the others can see it
    std::vector<unsigned> processors; ///< on which it may run
    unsigned machine_processors = 0;  ///< that its machine has
};

class World {
public:
    /// All ranks of the transport do this at the same time. `version`: of this program and its kernels.
    /// Throws UsageError if another rank has another one.
    World(std::shared_ptr<Transport> transport, CourierOptions options, const std::string& version);

    Courier& courier() { return courier_; }
    unsigned rank() const { return courier_.rank(); }
    unsigned size() const { return courier_.size(); }
    const std::vector<Rank>& ranks() const { return ranks_; }
    /// For messages: `rank 1 (host)`.
    std::string name(unsigned rank) const;

    /// By rank: a number of its host, the same for those that share a machine and its name.
    std::vector<unsigned> hosts() const;

    /// Ranks on this machine before this one, and all.
    unsigned local_rank() const { return local_rank_; }
    unsigned local_ranks() const { return local_ranks_; }
    /// The processors that this rank may keep busy: its part of those that it shares with other ranks.
    unsigned threads() const { return threads_; }
    /// For the user, if the launcher has left it one processor of many; or empty.
    std::string warning() const;

private:
    std::vector<Rank> ranks_;
    Courier courier_;
    unsigned local_rank_ = 0, local_ranks_ = 0, threads_ = 1;
};

/// Of this machine, unless the environment's TOWERS_HOST names it; `?`: it has no name.
std::string host_name();

/// What a rank takes of `devices`, the ids that a run alone would take: cards are dealt to the ranks of the
/// machine, each to one; a rank without one gets `cpu`.
std::vector<std::string> dealt_to(unsigned local_rank, unsigned local_ranks,
                                  const std::vector<std::string>& devices);

} // namespace towers
