/* One line a rank: how many bytes of messages, from 1 byte to 4 MiB, did not arrive as they were sent.
 *
 * usage: messages
 *
 * Every rank sends to the next one and to the one half way round, so that ranks of one node and of two talk. A library
 * chooses another way for each length: at once, in pieces, or read out of the sender's memory. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 1 << 22 };

static unsigned char content(int sender, int length, int at)
{
    return (unsigned char)(sender * 31 + length * 7 + at);
}

static long exchange(int rank, int size, int distance, int length, unsigned char *out, unsigned char *in)
{
    int from = (rank + size - distance) % size;
    long wrong = 0;

    for (int at = 0; at < length; at++) {
        out[at] = content(rank, length, at);
        in[at] = 0;
    }
    MPI_Sendrecv(out, length, MPI_BYTE, (rank + distance) % size, 0, in, length, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int at = 0; at < length; at++)
        wrong += in[at] != content(from, length, at);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, size, length;
    long wrong = 0;
    char node[MPI_MAX_PROCESSOR_NAME];
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(node, &length);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);

    for (length = 1; length <= LONGEST; length *= 4) {
        wrong += exchange(rank, size, 1, length, out, in);
        wrong += exchange(rank, size, size / 2, length, out, in);
    }

    printf("rank=%d size=%d node=%s wrong=%ld\n", rank, size, node, wrong);
    MPI_Finalize();
    return wrong != 0;
}
