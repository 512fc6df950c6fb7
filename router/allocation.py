"""How a Workload is laid out on a queue: chunks, cores per rank, memory, walltime.

A pure function of (Workload, what a queue's nodes have, the rule's defaults), by the rules of hpc.md 7 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """``count`` equal shares of a job, each on one node.

    ``ranks`` (mpiprocs) and ``ncpus`` are per chunk; ``ompthreads`` is cores per rank; ``memory`` bytes per chunk,
    None to leave it to the queue; ``gpus`` devices per chunk.
    """

    count: int
    ranks: int
    ncpus: int
    ompthreads: int
    memory: int | None
    gpus: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """What is asked of the batch system for one Pod.

    ``walltime`` is what the batch system is asked for, ``deadline`` what the script itself keeps for the containers,
    ``grace`` the time between TERM and KILL; all in seconds, deadline + grace <= walltime. ``notes`` say where each
    figure came from, in reading order; ``warnings`` are for the user.
    """

    chunks: tuple[Chunk, ...]
    ranks: int
    cores_per_rank: int
    walltime: int
    deadline: int
    grace: int
    notes: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """How many chunks there are in all; each lies on one node."""
        return sum(chunk.count for chunk in self.chunks)
