"""How long our own jobs wait, for batch systems that do not tell it of a queue without listing everybody's jobs.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from router.hpc import JobReport, JobState, QueueReport


def with_waits(queues: Mapping[str, QueueReport], reports: Iterable[JobReport], now: float) -> dict[str, QueueReport]:
    """The same queues; ``waited`` of those that have none is for how long, of these jobs, the one has been queued that was
    submitted first, in seconds; 0 where none is queued there.
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
