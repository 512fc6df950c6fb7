"""Limits on queued jobs, and OpenPBS' answers when they are exceeded.

Pure. Exit codes are PBSE_ENTLIMCT and PBSE_ENTLIMRESC modulo 256. The message about a queue's limit per user has the
word "generic" in place of the queue's name, as in OpenPBS 23.06.06.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from router.local.records import Config, Job, Limits, Queue

_TOO_MANY, _TOO_MUCH = 38, 39
_NONE: Final = Limits()


def refusal(owner: str, ncpus: int, queue: Queue, config: Config, living: Iterable[Job]) -> tuple[int, str] | None:
    """Exit code and text that refuse one more job of that user and size; None within all limits."""
    if queue.limits == config.limits == _NONE:
        return None
    jobs = list(living)
    whole = _beyond(config.limits, owner, ncpus, jobs)
    if whole:
        return _WORDS[whole][0], _WORDS[whole][1]
    own = _beyond(queue.limits, owner, ncpus, [job for job in jobs if job.queue == queue.name])
    return (_WORDS[own][0], _WORDS[own][2].format(queue=queue.name)) if own else None


def _beyond(limits: Limits, owner: str, ncpus: int, jobs: list[Job]) -> str:
    """The limit that one more job would exceed, or empty."""
    mine = [job for job in jobs if job.owner == owner]
    if limits.jobs is not None and len(jobs) >= limits.jobs:
        return "jobs"
    if limits.user_jobs is not None and len(mine) >= limits.user_jobs:
        return "user_jobs"
    if limits.user_ncpus is not None and ncpus + sum(job.ncpus for job in mine) > limits.user_ncpus:
        return "user_ncpus"
    return ""


_WORDS: Final = {
    "jobs": (_TOO_MANY, "Maximum number of jobs already in complex", "Maximum number of jobs already in queue {queue}"),
    "user_jobs": (
        _TOO_MANY,
        "would exceed complex's per-user limit",
        "would exceed queue generic's per-user limit",
    ),
    "user_ncpus": (
        _TOO_MUCH,
        "would exceed per-user limit on resource ncpus in complex",
        "would exceed per-user limit on resource ncpus in queue {queue}",
    ),
}
"""Exit code, text for the whole server, text for a queue."""
