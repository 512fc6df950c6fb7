/* One line a rank: who it is, where, on which cores, and the variables that are named.
 *
 * usage: ranks [-w FILE] [-f RANK] [-g SECONDS] [-s STATUS] [NAME]...
 *
 *   -w FILE     wait until FILE is there
 *   -f RANK     this rank does not wait: it ends with STATUS, without a word to the others
 *   -g SECONDS  on TERM a rank says so, goes on for so long, says that it is ready, and ends with STATUS
 *   -s STATUS   0 if it is not given; without -f and -g, what every rank ends with
 *
 * Each line is one write, which nothing can tear apart before it has left the rank. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINE = 4096, CORES = 1024 };

static volatile sig_atomic_t asked;

static void ask(int number)
{
    (void)number;
    asked = 1;
}

static size_t add(char *line, size_t length, const char *format, ...)
{
    va_list values;
    int more;

    va_start(values, format);
    more = vsnprintf(line + length, LINE - length, format, values);
    va_end(values);
    if (more < 0 || length + (size_t)more >= LINE)
        exit(70);
    return length + (size_t)more;
}

static void say(char *line, size_t length)
{
    length = add(line, length, "\n");
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
        exit(74);
}

static void tell(int rank, const char *word)
{
    char line[LINE];

    say(line, add(line, 0, "rank=%d %s", rank, word));
}

/* The cores that this process may use, as "0-2,5". */
static size_t add_cores(char *line, size_t length)
{
    cpu_set_t set;
    int first, last;
    const char *comma = "";

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        exit(71);
    for (first = 0; first < CORES; first = last + 1) {
        last = first;
        if (!CPU_ISSET(first, &set))
            continue;
        while (last + 1 < CORES && CPU_ISSET(last + 1, &set))
            last++;
        length = add(line, length, first == last ? "%s%d" : "%s%d-%d", comma, first, last);
        comma = ",";
    }
    return length;
}

static void introduce(int rank, char **names)
{
    int size, ignored;
    char node[MPI_MAX_PROCESSOR_NAME], line[LINE];
    const char *value;
    size_t length;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(node, &ignored);
    length = add(line, 0, "rank=%d size=%d node=%s container=%s cores=", rank, size, node,
                 access("/.singularity.d", F_OK) == 0 ? "yes" : "no");
    length = add_cores(line, length);
    for (; *names; names++) {
        value = getenv(*names);
        length = add(line, length, " %s=%s", *names, value ? value : "");
    }
    say(line, length);
}

/* Whether a TERM has ended the wait. */
static int await(int rank, const char *file, int seconds)
{
    while (access(file, F_OK) != 0) {
        if (asked) {
            tell(rank, "asked");
            while (seconds > 0)
                seconds = (int)sleep((unsigned)seconds); /* another signal ends a sleep */
            tell(rank, "ready");
            return 1;
        }
        usleep(100000);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int option, rank, failing = -1, seconds = -1, status = 0, ended = 0;
    const char *file = NULL;
    struct sigaction action = {.sa_handler = ask};

    while ((option = getopt(argc, argv, "+w:f:g:s:")) != -1) {
        switch (option) {
        case 'w': file = optarg; break;
        case 'f': failing = atoi(optarg); break;
        case 'g': seconds = atoi(optarg); break;
        case 's': status = atoi(optarg); break;
        default: return 64;
        }
    }
    MPI_Init(NULL, NULL);
    if (seconds >= 0)
        sigaction(SIGTERM, &action, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    introduce(rank, argv + optind);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == failing)
        _exit(status);
    if (file)
        ended = await(rank, file, seconds);
    MPI_Finalize(); /* Slurm's PMIx kills all ranks as soon as one ends without it. */
    return ended || (failing < 0 && seconds < 0) ? status : 0;
}
