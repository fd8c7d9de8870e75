#include "engine/ranks/launcher.h"

#include "backends/error.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>

namespace towers {

namespace {

bool has(const char* name) { return std::getenv(name) != nullptr; }

unsigned number(const char* name) {
    const char* const text = std::getenv(name);
    if (text == nullptr)
        throw UsageError(
            fmt::format("the launcher has left out {}, which tells ranks apart; use mpirun or srun", name));
    unsigned value = 0;
    const char* const end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, value);
    if (error != std::errc() || rest != end)
        throw UsageError(
            fmt::format("{}='{}' in the environment is not a launcher's number; unset it, or start "
                        "with mpirun or srun",
                        name, text));
    return value;
}

Launched launched_by(const char* launcher, MpiKind mpi, const char* rank, const char* ranks) {
    const Launched found{launcher, mpi, number(rank), number(ranks)};
    if (found.rank >= found.ranks)
        throw UsageError(fmt::format("{}={} in the environment does not fit {}={}; unset both, or start with "
                                     "mpirun or srun",
                                     rank, found.rank, ranks, found.ranks));
    return found;
}

} // namespace

std::optional<Launched> launched() {
    // Open MPI's and MPICH's own variables come first: a shell that srun has started passes on Slurm's.
    if (has("OMPI_COMM_WORLD_SIZE")) {
        Launched found = launched_by("mpirun of Open MPI", MpiKind::open_mpi, "OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE");
        found.kills_soon = true;
        return found;
    }
    // A batch script has other variables of Slurm, but is no job step. A launcher may start its ranks in one.
    const bool in_step = has("SLURM_STEP_NUM_TASKS");
    if (has("PMI_RANK") && (has("MPI_LOCALNRANKS") || !in_step))
        return launched_by("mpiexec of MPICH", MpiKind::mpich, "PMI_RANK", "PMI_SIZE");
    if (in_step) {
        const unsigned tasks = number("SLURM_STEP_NUM_TASKS");
        if (tasks <= 1) return std::nullopt; // whatever srun's MPI is by default, one task needs none
        if (has("PMI_RANK")) return launched_by("srun", MpiKind::mpich, "PMI_RANK", "PMI_SIZE");
        if (has("PMIX_RANK"))
            return launched_by("srun", MpiKind::open_mpi, "PMIX_RANK", "SLURM_STEP_NUM_TASKS");
        throw UsageError(
            fmt::format("srun has started {} tasks, but for no MPI; start with srun --mpi=pmix (Open MPI) "
                        "or srun --mpi=pmi2 (MPICH), or unset SLURM_STEP_NUM_TASKS to run each by itself",
                        tasks));
    }
    if (has("PMIX_RANK"))
        throw UsageError(
            "PMIX_RANK is in the environment, but not how many ranks there are; start with mpirun or srun, "
            "or unset it to run alone");
    return std::nullopt;
}

} // namespace towers
