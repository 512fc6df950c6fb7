/* One line a rank: who it is, where, and whether all ranks together agree.
 *
 * usage: ring [STATUS]     rank 0 ends with STATUS
 *
 * Every rank adds its number (from 1) to a sum, and passes a message to the next rank, the last one to rank 0, so that
 * neighbours on one node and across nodes have talked when it ends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, length, mine, sum, passed = 0;
    char node[MPI_MAX_PROCESSOR_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(node, &length);

    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &passed, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    printf("rank=%d size=%d node=%s sum=%d from=%d container=%s\n", rank, size, node, sum, passed,
           access("/.singularity.d", F_OK) == 0 ? "yes" : "no");
    MPI_Finalize();
    return rank == 0 && argc > 1 ? atoi(argv[1]) : 0;
}
