// A command on several ranks: what each does before the work begins, and how it ends.
#pragma once

#include "apps/towers/orders.h"
#include "apps/towers/resolved_run.h"
#include "engine/data/source.h"
#include "engine/ranks/world.h"
#include "engine/replica/tower_ranks.h"
#include "engine/trace/trace.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace towers {

/// Of a process that a launcher has started: `rank 1 of 4 on host, by mpirun of Open MPI`; else empty.
std::string place_among_ranks();
/// Why the launcher's MPI cannot be used here; empty: it can, or the program runs by itself.
std::string absence_of_ranks();

/// Throws UsageError if a launcher has started several processes of a command that runs in one. `command`:
/// its name.
void check_alone(const std::string& command);

/// The flags of a command line that all ranks must have, each as a line. Those of train may stand in a file,
/// too.
std::vector<std::string> common_lines(const Given& given);
std::vector<std::string> common_lines(const CLI::App& command);

/// A recipe in what rank 0 tells the others.
nlohmann::json to_message(const Recipe& recipe);
Recipe recipe_in(const nlohmann::json& message);

/// What the ranks that are left go on with when others are lost.
struct Left {
    std::string lost;          ///< who is gone, and how
    std::filesystem::path run; ///< of which rank 0 has the last checkpoint; else empty
};

/// The flags with which they go on, as with --resume: of the settings that the user has given only those that
/// each rank may have of its own, since the run has all others.
TrainFlags flags_to_go_on(const TrainFlags& flags, const Left& left);
/// Whether these shares, as of --shares, do not depend on the number of the towers.
bool fits_any_towers(const std::string& shares);

/// The ranks that a launcher has started; see docs/machines.md.
class Ranks {
public:
    /// Null: the program runs by itself. Throws UsageError.
    static std::unique_ptr<Ranks> join(Orders& orders);

    bool is_first() const { return world_.rank() == 0; }
    World& world() { return world_; }

    /// When a peer is gone, a thread of its own calls `end`, what to end before the program does, and then
    /// `way_on`, which returns how to go on. Both may be null.
    void when_gone(std::function<void()> end, std::function<std::string()> way_on);
    /// Of rank 0: when another rank is gone, the others can go on with this run from its last checkpoint, if
    /// the launcher lets them. Then all that waits for ranks throws PeerGone, and the command runs again.
    void can_go_on(std::filesystem::path run);
    /// Set in a command that runs again.
    const std::optional<Left>& left() const { return left_; }

    /// The devices that this rank takes: those that its flags say, else its part of what a program alone
    /// would take. `towers` of all ranks, as of an earlier run, count as none.
    std::vector<std::string> own_towers(const std::string& backend, const std::string& towers,
                                        const OpenOptions& open) const;
    /// Rank 0 learns which devices the ranks take. Returns the run's towers. `lines`: common_lines(). Throws
    /// UsageError if a rank has other ones.
    std::vector<std::string> gather_towers(const std::vector<std::string>& own,
                                           const std::vector<std::string>& lines);
    /// The others tell that.
    void tell_towers(const std::vector<std::string>& own, const std::vector<std::string>& lines);

    /// The threads of this rank's processors, of which --threads asks for so many; 0: its part of its
    /// machine's.
    unsigned threads_for(unsigned asked) const;

    /// Rank 0 tells the others what to do, an object, and which towers there are.
    void tell(nlohmann::json message);
    /// Null: rank 0 has ended well.
    nlohmann::json receive();

    /// The same for what a training does.
    void tell_run(const ResolvedRun& run);
    /// `given`: this rank's own settings, from which its data and threads come.
    ResolvedRun receive_run(const Given& given, const OpenOptions& open);

    /// All have opened their data. Throws UsageError on rank 0 if it is not the same everywhere.
    void compare_data(const DataSource& data, const DataSource* tests);

    /// All have closed their devices. Rank 0 adds the others' traces to its own.
    void gather_traces(Trace& trace);
    /// The others send theirs.
    void send_trace(const Trace& trace);

    const TowerRanks& towers() const { return towers_; }

    /// All has ended well on rank 0.
    void tell_end();

    /// Something on this rank has failed, as the exception that is being handled says: ends all ranks. On
    /// rank 0 it returns, and the caller reports; another rank ends here, and rank 0 reports.
    void fail_with_current_exception(std::unique_ptr<Ranks> self);

    /// Those that are left after a PeerGone, once; null: all are there.
    std::unique_ptr<Ranks> take_next();
    /// The command has ended with this code: parts from the others. Those that begin it again, because a rank
    /// was lost meanwhile, end too.
    void end(int code);

private:
    Ranks(std::shared_ptr<Transport> transport, Orders& orders, std::optional<Left> left = {});
    void peer_is_gone(const PeerGone& gone);
    void peer_is_late(std::optional<unsigned> peer);
    unsigned make_next(const PeerGone& gone);
    [[noreturn]] void end_without(const PeerGone& gone, unsigned speaker = 0);

    const std::shared_ptr<Transport> transport_;
    Orders& orders_;
    const std::optional<Left> left_;
    std::mutex mutex_; ///< of the following
    std::function<void()> end_;
    std::function<std::string()> way_on_;
    std::filesystem::path run_;
    std::unique_ptr<Ranks> next_;
    bool have_met_ = false;        ///< until then the communication thread must not use `world_`
    std::optional<PeerGone> gone_; ///< meanwhile
    World world_;                  // its thread uses the others
    TowerRanks towers_;
};

/// Runs a command on the ranks that a launcher has started, or on none: `lead` in the program alone, with
/// null, or on rank 0, `follow` on the others, which end well after rank 0 has. Returns the exit code: that
/// of `lead` if it counts, since a launcher may kill the others when one rank ends with another code than 0.
/// `orders`: null: nobody waits for them. Throws what `lead` throws, and a failure of `follow` ends all
/// ranks. Runs the command again on the ranks that are left if one is lost and they can go on.
int run_on_ranks(const std::function<int(Ranks*)>& lead, const std::function<void(Ranks&)>& follow,
                 Orders* orders = nullptr);

} // namespace towers
