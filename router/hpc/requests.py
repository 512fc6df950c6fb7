"""The request to a batch system for one Pod, and how its texts and figures are written.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
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
    """The resources that the batch system is asked for, for one Pod.

    ``walltime`` is the batch system's limit, ``deadline`` the limit that the script sets for the containers, ``grace``
    the time between TERM and KILL; all in seconds, deadline + grace <= walltime. ``notes`` say where each
    figure came from, in reading order; ``warnings`` are for the user. ``directives`` ask for further resources of the Job.
    """

    chunks: tuple[Chunk, ...]
    ranks: int
    cores_per_rank: int
    walltime: int
    deadline: int
    grace: int
    notes: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    directives: Mapping[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """The number of chunks; each is on one node."""
        return sum(chunk.count for chunk in self.chunks)


@unchanging
class Request:
    """What one script asks for: the allocation and further texts. ``exclusive``: nodes without other jobs."""

    queue: str
    allocation: Allocation
    account: str | None
    project: str | None
    extra: Mapping[str, str]
    exclusive: bool


def text_problem(value: str) -> str | None:
    """Why a text cannot be part of a directive, as one clause; None if it can."""
    if found := _UNSAFE.search(value):
        what = "a quote or backslash" if found.group() in "\"'\\`" else "a control or non-ASCII character"
        return f"{value!r} has {what}, which batch systems refuse or change"
    return None


def size(count: int) -> str:
    """A size in bytes as PBS reads it: rounded up to kilobytes, in the largest unit that is exact."""
    kib = -(-count // _KIB)
    for unit in ("kb", "mb"):
        if kib % _KIB:
            return f"{kib}{unit}"
        kib //= _KIB
    return f"{kib}gb"


def clock(seconds: int) -> str:
    """A walltime of these seconds, at least 1, as ``HH:MM:SS``."""
    # OpenPBS would kill a job of walltime 0 at once; to Slurm 0 means "no limit".
    return durations.hms(max(1, seconds))


def quoted(text: str) -> str:
    """A text as an option's value: in quotes if it is empty or has blanks."""
    return f'"{text}"' if " " in text or not text else text
