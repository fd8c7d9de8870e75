// Which launcher has started this process as one of several ranks, as its environment tells.
#pragma once

#include <optional>
#include <string>

namespace towers {

enum class MpiKind { open_mpi, mpich };

/// What the launcher says. It may be wrong about what the MPI makes of it, which the caller compares.
struct Launched {
    std::string launcher; ///< for messages: `mpirun of Open MPI`, `mpiexec of MPICH`, `srun`
    MpiKind mpi;
    unsigned rank, ranks;    ///< of this process, of all
    bool kills_soon = false; ///< a second after a SIGTERM, by which it ends the ranks when one is gone
};

/// None: the program runs by itself. Throws UsageError if a launcher is there that no MPI of ours can serve,
/// such as srun without --mpi.
std::optional<Launched> launched();

} // namespace towers
