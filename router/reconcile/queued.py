"""Works out who waits in a queue: for how long, at which place, and how long others have waited there.

Pure. A batch system that tells these only through a list of all users' jobs is not asked for that list: this cluster's
own jobs are counted in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from router.hpc import JobReport, JobState, QueueReport
from router.reconcile.following import queue_name, queue_of
from router.reconcile.model import Counted, Facts, Line

DAY: Final = 86400.0


def with_waits(queues: Mapping[str, QueueReport], reports: Iterable[JobReport], now: float) -> dict[str, QueueReport]:
    """The queues, with ``waited`` filled in where it is None.

    ``waited`` becomes the seconds since the submission of the oldest of these jobs that waits there for its turn, or 0
    if none does.
    """
    own = _own(reports)
    return {
        name: replace(state, waited=_waited(own[name], now)) if state.waited is None else state
        for name, state in queues.items()
    }


def _waited(own: Iterable[JobReport], now: float) -> int:
    first = next((one.submitted for one in own), None)
    return 0 if first is None else max(0, int(now - first.timestamp()))


def _own(reports: Iterable[JobReport]) -> defaultdict[str, list[JobReport]]:
    """The jobs that wait for their turn, by queue, in the order of submission."""
    found: defaultdict[str, list[JobReport]] = defaultdict(list)
    for one in reports:
        if one.state is JobState.QUEUED and one.submitted is not None and not one.aside:
            found[queue_name(one)].append(one)
    for own in found.values():
        own.sort(key=lambda one: (one.submitted, one.job_id))
    return found


def lines(
    queues: Mapping[str, QueueReport],
    reports: Iterable[JobReport],
    facts: Iterable[Facts],
    now: float,
    *,
    observed: bool,
) -> dict[str, Line]:
    """The line of each queue, in the batch system's order, or else in the order of submission.

    :param observed: whether the queues were asked about as the site's observer, to whom all users' jobs are shown
    """
    own = _own(reports)
    listed = frozenset(job_id for state in queues.values() for job_id in state.listed)
    waits = _waits(facts, now)
    found = {}
    for name, state in queues.items():
        line, counted = state.line, Counted.ALL if observed else Counted.SEEN
        if line is None or _hidden(own[name], listed):
            line, counted = tuple(one.job_id for one in own[name]), Counted.OWN
        places = {job_id: place for place, job_id in enumerate(line, 1)}
        found[name] = Line(places, counted, tuple(sorted(waits[name])))
    return found


def _hidden(reports: Iterable[JobReport], listed: Collection[str]) -> bool:
    """Whether the list of jobs lacks all of a user's jobs that wait: the batch system hides them from whoever asked.

    A single one may have ended since it was reported, and one that is listed may wait for something else than its turn.
    """
    shown: dict[str, bool] = {}
    for one in reports:
        shown[one.owner] = shown.get(one.owner, False) or one.job_id in listed
    return not all(shown.values())


def _waits(facts: Iterable[Facts], now: float) -> defaultdict[str, list[float]]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in facts:
        started = one.pod.status.started
        if started is not None and started > now - DAY:
            found[queue_of(one)].append(max(0.0, started - one.pod.created))
    return found
