// The time of MPI_Allreduce for as many bytes as a network's gradients have, beside tests/tools/exchange.cpp.
//
// Usage: mpicc -O2 tests/peers/mpi_allreduce.c -o mpi_allreduce; mpirun -n RANKS mpi_allreduce MEGABYTES
// [STEPS]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int count = (int)(1e6 / 4 * atof(argc > 1 ? argv[1] : "4.3")),
              steps = atoi(argc > 2 ? argv[2] : "50");
    float *const gradients = calloc(count, sizeof *gradients), *const sums = calloc(count, sizeof *sums);
    const int warm_up = 1 + steps / 10;
    double begin = 0;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int step = 0; step < warm_up + steps; ++step) {
        if (step == warm_up) {
            MPI_Barrier(MPI_COMM_WORLD);
            begin = MPI_Wtime();
        }
        MPI_Allreduce(gradients, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, %.1f MB: %.3f ms\n", ranks, 4e-6 * count, 1e3 * (MPI_Wtime() - begin) / steps);
    MPI_Finalize();
    return 0;
}
