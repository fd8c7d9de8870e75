#include "engine/ranks/launcher.h"

#include "backends/error.h"
#include "tests/support/environment.h"
#include "tests/support/says.h"

#include <string>
#include <utility>
#include <vector>

namespace {

using namespace towers;
using test::says;

using Variables = std::vector<std::pair<const char*, const char*>>;

/// What launched() says in an environment that has these variables alone of all that launchers set.
std::optional<Launched> launched_with(const Variables& variables) {
    test::Environment environment;
    for (const char* const name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS",
          "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_NTASKS"})
        environment.set(name, nullptr);
    for (const auto& [name, value] : variables) environment.set(name, value);
    return launched();
}

std::string told(const Variables& variables) {
    const std::optional<Launched> found = launched_with(variables);
    if (!found) return "alone";
    return found->launcher + ": " + std::to_string(found->rank) + " of " + std::to_string(found->ranks) +
           (found->mpi == MpiKind::open_mpi ? ", Open MPI" : ", MPICH");
}

std::string refused(const Variables& variables) {
    try {
        return "not refused: " + told(variables);
    } catch (const UsageError& error) {
        return error.what();
    }
}

TEST_CASE("a program that nobody has launched runs alone") {
    CHECK(told({}) == "alone");
    // A batch script of Slurm, which may be its own step
    CHECK(told({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}) == "alone");
    CHECK(told({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "1"}}) == "alone");
    // A shell that srun has started, whatever srun's MPI is
    CHECK(told({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}}) == "alone");
    CHECK(told({{"SLURM_STEP_NUM_TASKS", "1"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}) == "alone");
}

TEST_CASE("a launcher tells how soon it kills") {
    CHECK(launched_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}})->kills_soon);
    CHECK_FALSE(launched_with({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})->kills_soon);
}

TEST_CASE("launchers are told by what they set") {
    CHECK(told({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}) ==
          "mpirun of Open MPI: 3 of 4, Open MPI");
    CHECK(told({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}}) ==
          "mpiexec of MPICH: 0 of 2, MPICH");
    CHECK(told({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}) == "mpiexec of MPICH: 0 of 2, MPICH");
    CHECK(told({{"PMIX_RANK", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}) == "srun: 1 of 2, Open MPI");
    CHECK(told({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}) ==
          "srun: 1 of 2, MPICH");
}

TEST_CASE("one rank under an MPI's own launcher is launched") {
    CHECK(told({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}) ==
          "mpirun of Open MPI: 0 of 1, Open MPI");
    CHECK(told({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALNRANKS", "1"}}) ==
          "mpiexec of MPICH: 0 of 1, MPICH");
}

TEST_CASE("a launcher within a step of Slurm is told from srun") {
    CHECK(told({{"SLURM_STEP_NUM_TASKS", "1"},
                {"PMIX_RANK", "0"},
                {"PMI_RANK", "2"},
                {"PMI_SIZE", "3"},
                {"MPI_LOCALNRANKS", "3"}}) == "mpiexec of MPICH: 2 of 3, MPICH");
    CHECK(told({{"SLURM_STEP_NUM_TASKS", "2"},
                {"PMI_RANK", "1"},
                {"PMI_SIZE", "2"},
                {"OMPI_COMM_WORLD_SIZE", "4"},
                {"OMPI_COMM_WORLD_RANK", "2"}}) == "mpirun of Open MPI: 2 of 4, Open MPI");
}

TEST_CASE("tasks that no MPI connects are refused") {
    CHECK(says(refused({{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_PROCID", "1"}}),
               "srun has started 3 tasks, but for no MPI; start with srun --mpi=pmix"));
    CHECK(says(refused({{"PMIX_RANK", "0"}}), "not how many ranks there are"));
}

TEST_CASE("what is no launcher's number is refused") {
    CHECK(says(refused({{"OMPI_COMM_WORLD_SIZE", "four"}, {"OMPI_COMM_WORLD_RANK", "0"}}),
               "OMPI_COMM_WORLD_SIZE='four'"));
    CHECK(says(refused({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", ""}}),
               "OMPI_COMM_WORLD_RANK=''"));
    CHECK(says(refused({{"PMI_RANK", "1x"}, {"PMI_SIZE", "2"}}), "PMI_RANK='1x'"));
    CHECK(says(refused({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), "PMI_RANK='-1'"));
    CHECK(says(refused({{"SLURM_STEP_NUM_TASKS", "99999999999"}}), "SLURM_STEP_NUM_TASKS='99999999999'"));
    CHECK(says(refused({{"PMI_RANK", "0"}}), "left out PMI_SIZE"));
    CHECK(says(refused({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
               "PMI_RANK=2 in the environment does not fit PMI_SIZE=2"));
    CHECK(says(refused({{"OMPI_COMM_WORLD_SIZE", "0"}, {"OMPI_COMM_WORLD_RANK", "0"}}), "does not fit"));
}

} // namespace
