"""Works out who waits in a queue: for how long, at which place, and how long others have waited there.

Pure. A batch system that tells these only through a list of all users' jobs is not asked for that list: this cluster's
own jobs are counted in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from router.hpc import JobReport, JobState, QueueReport, waiting
from router.pod.view import PodView

DAY: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Line:
    """Who waits in a queue for a turn.

    :param places: the place of each job by its id, counted from 1
    :param whole: whether all users' jobs are counted; if not, this cluster's alone
    :param waits: seconds that this cluster's Pods waited there which began within a day, in ascending order
    """

    places: Mapping[str, int] = field(default_factory=dict)
    whole: bool = False
    waits: tuple[float, ...] = ()


def with_waits(queues: Mapping[str, QueueReport], reports: Iterable[JobReport], now: float) -> dict[str, QueueReport]:
    """The queues, with ``waited`` filled in where it is None.

    ``waited`` becomes the seconds since the submission of the oldest of these jobs that is queued there, or 0 if none
    is.
    """
    longest: dict[str, int] = {}
    for one in reports:
        if one.state is JobState.QUEUED and one.submitted is not None:
            name = queue_name(one)
            longest[name] = max(longest.get(name, 0), int(now - one.submitted.timestamp()))
    return {
        name: replace(state, waited=longest.get(name, 0)) if state.waited is None else state
        for name, state in queues.items()
    }


def lines(
    queues: Mapping[str, QueueReport], reports: Iterable[JobReport], pods: Iterable[PodView], now: float
) -> dict[str, Line]:
    """The line of each queue, in the batch system's order, or else in the order of submission."""
    own: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for one in reports:
        if one.state is JobState.QUEUED and one.submitted is not None and not waiting.never_runs(one.reason):
            own[queue_name(one)].append((one.submitted.timestamp(), one.job_id))
    waits = _waits(pods, now)
    found = {}
    for name, state in queues.items():
        told = state.line if state.line is not None else tuple(job_id for _, job_id in sorted(own[name]))
        places = {job_id: place for place, job_id in enumerate(told, 1)}
        found[name] = Line(places, state.line is not None, tuple(sorted(waits[name])))
    return found


def queue_name(report: JobReport) -> str:
    """The queue of a job, without the server that PBS may write behind it."""
    return report.queue.partition("@")[0]


def _waits(pods: Iterable[PodView], now: float) -> defaultdict[str, list[float]]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pod in pods:
        started = pod.status.started
        if started is not None and started > now - DAY:
            found[pod.queue].append(max(0.0, started - pod.created))
    return found
