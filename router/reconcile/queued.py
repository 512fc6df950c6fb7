"""Works out how long jobs wait in a queue from this cluster's own jobs.

Pure. Used for batch systems that tell a queue's waiting time only through a list of all users' jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from router.hpc import JobReport, JobState, QueueReport


def with_waits(queues: Mapping[str, QueueReport], reports: Iterable[JobReport], now: float) -> dict[str, QueueReport]:
    """The queues, with ``waited`` filled in where it is None.

    ``waited`` becomes the seconds since the submission of the oldest of these jobs that is queued there, or 0 if none
    is.
    """
    longest: dict[str, int] = {}
    for one in reports:
        if one.state is JobState.QUEUED and one.submitted is not None:
            name = one.queue.partition("@")[0]
            longest[name] = max(longest.get(name, 0), int(now - one.submitted.timestamp()))
    return {
        name: replace(state, waited=longest.get(name, 0)) if state.waited is None else state
        for name, state in queues.items()
    }
