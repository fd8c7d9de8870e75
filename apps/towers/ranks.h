// A run of several ranks: what each does before the training begins, and how it ends.
#pragma once

#include "apps/towers/resolved_run.h"
#include "engine/data/source.h"
#include "engine/ranks/world.h"
#include "engine/replica/tower_ranks.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace towers {

/// Of a process that a launcher has started: `rank 1 of 4 on host, by mpirun of Open MPI`; else empty.
std::string place_among_ranks();

/// Throws UsageError if a launcher has started several processes of a command that runs in one. `command`:
/// its name.
void check_alone(const std::string& command);

/// The settings that flags give and that all ranks must have, a line each.
std::vector<std::string> common_flags(const TrainFlags& flags);

/// The ranks that a launcher has started; see docs/machines.md.
class Ranks {
public:
    /// Null: the program runs by itself. `stop`: the user wants to end the run, also on another rank: rank 0
    /// learns of it. Throws UsageError.
    static std::unique_ptr<Ranks> join(std::atomic<bool>& stop);

    bool is_first() const { return world_.rank() == 0; }
    World& world() { return world_; }

    /// Called when a peer is gone, on a thread of its own, before the program ends: what to end first.
    /// Returns how to go on.
    void when_gone(std::function<std::string()> end);

    /// The devices that this rank takes, by its own flags.
    std::vector<std::string> own_devices(const std::string& backend, const std::string& towers,
                                         const OpenOptions& open) const;
    /// Rank 0 learns which devices the ranks take. Returns the run's towers. Throws UsageError if the flags
    /// that all must have, as lines for the user, are not `flags` on another rank.
    std::vector<std::string> gather_towers(const std::vector<std::string>& own,
                                           const std::vector<std::string>& flags);
    /// The others tell that.
    void tell_towers(const std::vector<std::string>& own, const std::vector<std::string>& flags);

    /// The threads of this rank's processors, of which --threads asks for so many; 0: its part of its
    /// machine's.
    unsigned threads_for(unsigned asked) const;

    /// All ranks do that, and get the run's towers.
    std::vector<std::string> exchange_towers(const std::vector<std::string>& own,
                                             const std::vector<std::string>& flags);

    /// Rank 0 tells what the run does, which the others receive.
    void tell_run(const ResolvedRun& run);
    /// `flags`: this rank's own, from which its data and threads come.
    ResolvedRun receive_run(const TrainFlags& flags);

    /// All have opened their data. Throws UsageError on rank 0 if it is not the same everywhere.
    void compare_data(const DataSource& data, const DataSource* tests);

    const TowerRanks& towers() const { return towers_; }

    /// The run has ended on rank 0 with this code, which the others receive.
    void tell_end(int code);
    int receive_end();

    /// Something on this rank has failed, as the exception that is being handled says: ends all ranks. On
    /// rank 0 it returns, and the caller reports; another rank ends here, and rank 0 reports.
    void fail_with_current_exception(std::unique_ptr<Ranks> self);

private:
    Ranks(std::unique_ptr<Transport> transport, std::atomic<bool>& stop);
    void peer_is_gone(const PeerGone& gone);
    void take_counts(std::vector<std::size_t> counts);

    std::mutex mutex_;
    std::function<std::string()> end_;
    World world_; // its thread uses the others
    TowerRanks towers_;
};

/// Runs a command on every rank that a launcher has started, or alone with null. `stop`: as for
/// Ranks::join(). Returns its exit code; if it fails on one rank, all end.
int run_on_ranks(std::atomic<bool>& stop, const std::function<int(Ranks*)>& command);

} // namespace towers
