"""What is asked of a batch system for one Pod, and how texts and figures of it are written.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router.notation import durations
from router.values import unchanging

_UNSAFE: Final = re.compile(r"[^\x20-\x7e]|[\"'\\`]")
_KIB: Final = 1024


@unchanging
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


@unchanging
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


@unchanging
class Request:
    """What one script asks for: the allocation, and the texts beside it. ``exclusive``: nodes with nobody else."""

    queue: str
    allocation: Allocation
    account: str | None
    project: str | None
    extra: Mapping[str, str]
    exclusive: bool


def text_problem(value: str) -> str | None:
    """Why a text can be no part of a directive, as one clause; None where it can."""
    if found := _UNSAFE.search(value):
        what = "a quote or backslash" if found.group() in "\"'\\`" else "a control or non-ASCII character"
        return f"{value!r} has {what}, which batch systems refuse or change"
    return None


def size(count: int) -> str:
    """Bytes as PBS reads them: the largest unit that is exact, kilobytes rounded up."""
    kib = -(-count // _KIB)
    for unit in ("kb", "mb"):
        if kib % _KIB:
            return f"{kib}{unit}"
        kib //= _KIB
    return f"{kib}gb"


def clock(seconds: int) -> str:
    """A walltime."""
    # 0 would be killed at once by OpenPBS and mean "no limit" to Slurm.
    return durations.hms(max(1, seconds))


def quoted(text: str) -> str:
    """A text as an option's value."""
    return f'"{text}"' if " " in text or not text else text
