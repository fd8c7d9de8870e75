// Ranks under the launchers of real MPIs.
#pragma once

#include "tests/apps/helpers.h"
#include "tests/support/files.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace towers::test {

using Clock = std::chrono::steady_clock;

/// An MPI with its launcher.
struct Mpi {
    const char* name;
    const char* rank_variable; ///< in a rank's environment
    Arguments flags;
    bool code = true;  ///< ends with that of a rank that failed
    bool colon = true; ///< can start unlike ranks, which a colon separates; some versions crash
};

/// Marks the processes that it starts.
RunOptions marked(const std::string& mark);
Outcome run(const Arguments& command);
/// Those that are installed and have a plugin; says which are not.
const std::vector<Mpi>& mpis();
/// A launcher that lets ranks go on without one that is gone; none: it is not here.
const std::optional<Mpi>& mpi_that_goes_on();
/// Checks that a rank has failed, as far as the launcher tells.
void check_failed(const Mpi& mpi, const Outcome& outcome);
/// What a rank runs: `train` with these flags.
Arguments train_command(const Arguments& flags);
/// A launcher and its ranks, each with a command line of its own.
Arguments launch(const Mpi& mpi, const std::vector<Arguments>& ranks);
/// The same with trainings, each with flags of its own.
Arguments under(const Mpi& mpi, const std::vector<Arguments>& ranks);
/// The same with ranks that take each pair of them to be on a host of its own.
Arguments in_pairs(const Mpi& mpi, std::size_t ranks, const Arguments& flags);
/// So many ranks with the same flags.
Arguments under(const Mpi& mpi, std::size_t ranks, const Arguments& flags);
/// The process of a rank that is marked so; 0 if there is none.
pid_t find_process(const Mpi& mpi, const std::string& mark, unsigned rank);
/// Waits until it is there.
pid_t process_of(const Mpi& mpi, const std::string& mark, unsigned rank);
/// The step of its latest checkpoint; 0: it has none.
unsigned latest(const std::filesystem::path& run);
/// What the program says on stderr, without the launcher's words.
std::vector<std::string> own_lines(const Outcome& outcome);
/// Checks that the program failed and said one line, with these words.
void check_refused(const Mpi& mpi, const Outcome& outcome, const std::string& words);
/// Checks that it ended well.
void check_started(const Outcome& outcome);

/// Data and a recipe whose batch norm takes the whole batch, and the flags of a run on them.
class Job {
public:
    Job() {
        write_records(folder_ / "data", 8);
        write_text(folder_ / "mine.toml",
                   tiny_recipe("\"batch\"", "kind = \"momentum\"\nlearning_rate = 1e-2\nmomentum = 0.9\n"));
    }
    std::filesystem::path operator/(const char* name) const { return folder_ / name; }

    Arguments flags(const std::filesystem::path& run, const std::string& towers, unsigned steps) const {
        return {"--towers",       towers,
                "--threads",      "1",
                "--recipe",       (folder_ / "mine.toml").string(),
                "--global-batch", "24",
                "--data",         (folder_ / "data").string(),
                "--run",          run.string(),
                "--steps",        std::to_string(steps),
                "--save-every",   "2",
                "--log-every",    "1",
                "--progress",     "log"};
    }

private:
    TemporaryFolder folder_;
};

} // namespace towers::test
