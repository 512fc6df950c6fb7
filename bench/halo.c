/* A fixed amount of work for ranks that compute and talk: Jacobi steps on a strip each, as solvers of heat or flow do.
 *
 * usage: halo STEPS
 *
 * At each step neighbours exchange their edges, and all ranks agree on the largest change. Rank 0 prints when all ranks
 * had started, when all had done their work (seconds since 1970) and the last change, which shows the work as done. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 512, COLUMNS = 512 }; /* of each rank: 2 MiB a field, 4 KiB an edge */

static double fields[2][ROWS + 2][COLUMNS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double step(double (*from)[COLUMNS], double (*to)[COLUMNS])
{
    double most = 0;
    for (int row = 1; row <= ROWS; row++)
        for (int column = 1; column < COLUMNS - 1; column++) {
            to[row][column] = 0.25 * (from[row - 1][column] + from[row + 1][column] + from[row][column - 1]
                                      + from[row][column + 1]);
            most = fmax(most, fabs(to[row][column] - from[row][column]));
        }
    return most;
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 1;
    double started, done, mine, change = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int above = rank ? rank - 1 : MPI_PROC_NULL, below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int field = 0; field < 2; field++)
        for (int row = 0; row < ROWS + 2; row++) fields[field][row][0] = 1; /* one side is warm */
    MPI_Barrier(MPI_COMM_WORLD);
    started = now();
    for (int count = 0; count < steps; count++) {
        double (*from)[COLUMNS] = fields[count % 2], (*to)[COLUMNS] = fields[1 - count % 2];
        MPI_Sendrecv(from[1], COLUMNS, MPI_DOUBLE, above, 0, from[ROWS + 1], COLUMNS, MPI_DOUBLE, below, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(from[ROWS], COLUMNS, MPI_DOUBLE, below, 1, from[0], COLUMNS, MPI_DOUBLE, above, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        mine = step(from, to);
        MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    done = now();
    if (rank == 0) printf("%d %.6f %.6f %.17g\n", size, started, done, change);
    MPI_Finalize();
    return 0;
}
