"""Finds Jobs whose Pods the cluster refuses to create: for a quota, a LimitRange, a missing account, a webhook.

Pure. Only an Event tells of such a refusal: the Job itself looks like one that waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.operating.jobs import JobFacts, JobPhase, state
from router.operating.story import moment_of
from router.operating.stuck import PATIENCE, Stuck
from router.pod.status import rfc3339, seconds
from router.pod.view import PodView

REASON: Final = "FailedCreate"
"""The Job controller's reason of such an Event."""
MOST: Final = 2000
"""Jobs whose Events are kept: whoever may write Events may write any number of them, each with a MiB of text."""
_LONGEST: Final = 2000
"""Most characters that are kept of a message."""
_TOLD_AGAIN: Final = 600
"""Seconds within which a refusal that goes on is told again: the controller tries each minute at least, and a client
tells the same about an object every five minutes at least (client-go, EventSourceObjectSpamFilter)."""
SELECTOR: Final = f"reason={REASON},involvedObject.kind=Job"
"""The API server's selector of the fields of such Events."""


@dataclass(frozen=True, slots=True)
class FailedCreation:
    """An Event that a Job's Pods could not be created, such as for a quota. ``since``: seconds since 1970."""

    namespace: str
    job: str
    uid: str
    message: str
    since: int


def failed_creation(event: Mapping[str, Any]) -> FailedCreation:
    """What is kept of such an Event from the API; ``since`` is its last time."""
    about, message = event.get("involvedObject") or {}, str(event.get("message") or "")
    return FailedCreation(
        namespace=str(about.get("namespace") or ""),
        job=str(about.get("name") or ""),
        uid=str(about.get("uid") or ""),
        message=message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…",
        since=seconds(moment_of(event)) or 0,
    )


def keep_latest(known: dict[tuple[str, str], FailedCreation], event: Mapping[str, Any]) -> None:
    """Add an Event from the API, by its Job's namespace and uid. Of many Jobs, the latest :data:`MOST` at least are kept."""
    found = failed_creation(event)
    before = known.get(key := (found.namespace, found.uid))
    if before is None or before.since <= found.since:
        known[key] = found
    if len(known) > 2 * MOST:
        for old in sorted(known, key=lambda one: known[one].since)[:-MOST]:
            del known[old]


def without_pods(
    jobs: Iterable[JobFacts], pods: Iterable[PodView], failed: Iterable[FailedCreation], now: float
) -> Iterator[Stuck]:
    """The Jobs that wait without a Pod as its creation failed, the longest waiting first.

    A Pod that was made since the Event shows that the cluster takes the Job's Pods again.
    """
    last = {(one.namespace, one.uid): one for one in sorted(failed, key=lambda one: one.since)}
    of_job: defaultdict[tuple[str, str], list[PodView]] = defaultdict(list)
    for pod in pods:
        if (key := (pod.namespace, pod.job_uid)) in last:
            of_job[key].append(pod)
    told = (job for job in jobs if (job.namespace, job.uid) in last)
    for job in sorted(told, key=lambda one: (one.since, one.namespace, one.name)):
        event = last[key := (job.namespace, job.uid)]
        if _lacks(job, of_job[key], event, now):
            since = rfc3339(job.since)
            yield Stuck("Job", job.namespace, job.name, job.name, job.site, job.queue, REASON, since, event.message)


def _lacks(job: JobFacts, pods: list[PodView], event: FailedCreation, now: float) -> bool:
    if job.active or now - job.since <= PATIENCE or state(job, tuple(pods)) is not JobPhase.WAITING:
        return False
    if job.ended and now - event.since > _TOLD_AGAIN:
        return False
    return all(pod.status.terminal and pod.created < event.since for pod in pods)
