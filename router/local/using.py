"""Measures what running jobs use: CPU time and memory of their processes, which are descendants of their shepherds.

Shell: reads /proc. Memory is what each process has alone, and what the one with the most shares with others: its file
pages and shared segments. The sum of all that is resident, as pbs_mom has it, counts these once for each process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from router.local import running, shepherd
from router.local.records import RUNNING, SUSPENDED, Job
from router.local.resources import clock, seconds

AGAIN: Final = 10.0
"""Seconds between two looks at one job, as pbs_mom's ``$min_check_poll``."""
_MOST: Final = 100
"""The most jobs that one query measures, longest ago first: each takes half a millisecond, and others wait meanwhile."""
# In what `shepherd.stat` returns, proc(5): utime and stime, then those of the children that the process has waited for.
_TIMES: Final = slice(11, 15)
_OF_CHILDREN: Final = slice(13, 15)


def measure(jobs: Iterable[Job], now: float) -> None:
    """Bring ``used`` of running jobs up to date, where the kernel lists the children of processes.

    :param now: seconds since 1970
    """
    due = [job for job in jobs if job.state in {RUNNING, SUSPENDED} and not 0 <= now - job.measured < AGAIN]
    for job in sorted(due, key=lambda one: one.measured)[:_MOST]:
        pids = shepherd.family(job.shepherd[0]) if running.is_watched(job) else []
        if pids:
            job.used, job.measured = _used(job, pids, now), now


def ran(job: Job, now: float) -> float:
    """Seconds that a running job has run, without suspensions."""
    return (job.stopped or now) - (job.started or now) - job.away


def _used(job: Job, pids: list[int], now: float) -> dict[str, str]:
    ticks = _ticks(job.shepherd[0], _OF_CHILDREN) + sum([_ticks(pid, _TIMES) for pid in pids])
    # The time of a process that has ended is lost unless its parent waits for it.
    cpu = max(ticks / os.sysconf("SC_CLK_TCK"), seconds(job.used.get("cput", "0")))
    return {
        "cput": clock(cpu),
        "mem": f"{_pages(pids) * os.sysconf('SC_PAGESIZE') // 1024}kb",
        "ncpus": job.listed.get("ncpus", "1"),
        "walltime": clock(ran(job, now)),
    }


def _ticks(pid: int, which: slice) -> int:
    return sum(map(int, shepherd.stat(pid)[which]))


def _pages(pids: list[int]) -> int:
    """Field 2 of /proc/PID/statm is what is resident, field 3 how much of it is shared."""
    found = [(0, 0)]
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
            found.append((int(resident), int(shared)))
    return sum([resident - shared for resident, shared in found]) + max([shared for _, shared in found])
