"""Finds Pods and Nodes that are stuck, and why.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from router.hpc.waiting import never_starts
from router.names import (
    CONDITION_NODE_LOST,
    CONDITION_SUSPENDED,
    REASON_CONFIG_ERROR,
    REASON_CREATE_CONTAINER,
    REASON_CREATING,
    REASON_ERR_IMAGE_NEVER_PULL,
    REASON_ERR_IMAGE_PULL,
    REASON_HELD,
    REASON_HPC_UNAVAILABLE,
    REASON_IMAGE_PULL_BACK_OFF,
    REASON_INVALID_IMAGE_NAME,
    REASON_NOT_VERIFIED,
    REASON_OLDER_RUN,
    REASON_OTHER_RELEASE,
    REASON_QUEUE_FULL,
    REASON_QUEUED,
    REASON_REFUSED,
    REASON_REGISTRY_UNAVAILABLE,
    REASON_SITE_REFUSED,
    REASON_SITE_STORAGE,
    REASON_TOO_LARGE,
    REASON_WRONG_USER,
)
from router.operating.jobs import JobFacts
from router.pod.status import FAILED, PENDING, PodStatus, Waiting, rfc3339
from router.pod.view import PodView
from router.reconcile.following import concluded

NOT_TAKEN_UP: Final = "NotTakenUp"
"""Our reason for a Pod that its agent has not mentioned for :data:`PATIENCE` seconds."""
NEVER_STARTS: Final = "NeverStarts"
"""Our reason for a Pod whose batch job waits, and by the batch system's own words can never start as things are."""
DELETION: Final = "Terminating"
"""kubectl's status of a Pod that is being deleted."""
PATIENCE: Final = 60
"""Seconds that a new Pod, or a deletion after its grace period, may take before it is shown as stuck."""
_MAKING: Final = 300
"""Seconds that a Pod's volumes may take. Then a ConfigMap may be missing, or a right of the agent."""
NONE_AWAY: Final[Mapping[tuple[str, str], str]] = MappingProxyType({})
_WAITS: Final = frozenset(
    {
        REASON_QUEUE_FULL,
        REASON_HELD,
        REASON_OLDER_RUN,
        REASON_HPC_UNAVAILABLE,
        REASON_SITE_REFUSED,
        REASON_SITE_STORAGE,
        REASON_CONFIG_ERROR,
        REASON_NOT_VERIFIED,
        REASON_OTHER_RELEASE,
        REASON_CREATE_CONTAINER,
        REASON_ERR_IMAGE_NEVER_PULL,
        REASON_ERR_IMAGE_PULL,
        REASON_IMAGE_PULL_BACK_OFF,
        REASON_INVALID_IMAGE_NAME,
        REASON_REGISTRY_UNAVAILABLE,
    }
)
_REFUSALS: Final = frozenset({REASON_REFUSED, REASON_NOT_VERIFIED, REASON_WRONG_USER, REASON_TOO_LARGE})


@dataclass(frozen=True, slots=True)
class Stuck:
    """One stuck Pod, Job or Node. ``since``: RFC 3339; for a Job, a waiting or refused Pod, when it was created."""

    kind: str
    namespace: str
    name: str
    job: str
    site: str
    queue: str
    reason: str
    since: str
    message: str


def pods(
    found: Iterable[PodView], jobs: Mapping[str, JobFacts], now: float, away: Mapping[tuple[str, str], str] = NONE_AWAY
) -> Iterator[Stuck]:
    """The stuck Pods, the longest stuck first. A refused Pod counts until its Job has succeeded.

    :param jobs: the known Jobs, by uid
    :param away: by site and queue, the words of Nodes whose batch system does not answer
    """
    told = [(since, pod, reason, words) for pod in found for since, reason, words in _of(pod, jobs, now, away)]
    for since, pod, reason, words in sorted(told, key=lambda one: (one[0], one[1].key)):
        yield Stuck("Pod", pod.namespace, pod.name, pod.job, pod.site, pod.queue, reason, rfc3339(since), words)


def _of(
    pod: PodView, jobs: Mapping[str, JobFacts], now: float, away: Mapping[tuple[str, str], str]
) -> Iterator[tuple[int, str, str]]:
    status = pod.status
    if pod.owner == "DaemonSet":
        return
    if pod.deleted_at is not None:
        if now - pod.deleted_at > PATIENCE and not concluded(status):  # then a finalizer of somebody else's holds it
            yield pod.deleted_at, DELETION, status.message or "its batch job is not known to have ended"
        return
    if status.phase == FAILED:
        job = jobs.get(pod.job_uid)
        if status.reason in _REFUSALS and (job is None or job.finished != "Complete"):
            yield pod.created, status.reason, status.message
        return
    yield from _lost(status)
    if status.phase == PENDING:
        yield from _waits(pod, now, away.get((pod.site, pod.queue), ""))


def _lost(status: PodStatus) -> Iterator[tuple[int, str, str]]:
    for kind in (CONDITION_NODE_LOST, CONDITION_SUSPENDED):
        found = status.condition(kind)
        if found is not None and found.holds:
            yield found.since, kind, found.message


def _waits(pod: PodView, now: float, away: str) -> Iterator[tuple[int, str, str]]:
    reason, message = waiting(pod.status)
    if reason in _WAITS:
        yield pod.created, reason, message
    elif reason == REASON_QUEUED and never_starts(message):
        yield pod.created, NEVER_STARTS, message
    elif reason == REASON_CREATING and now - pod.created > _MAKING:
        yield pod.created, reason, message
    elif not reason and now - pod.created > PATIENCE:
        unsaid = f"its batch job is {pod.job_id}, and the agent has not written its state: see the agent's log"
        silence = unsaid if pod.job_id else "the agent of its site has said nothing of it; does it run?"
        yield pod.created, REASON_HPC_UNAVAILABLE if away else NOT_TAKEN_UP, away or silence


def waiting(status: PodStatus) -> tuple[str, str]:
    """Why a Pod waits: its own reason and message, else those of the first waiting container."""
    if status.reason:
        return status.reason, status.message
    for one in (*status.init_containers, *status.containers):
        if isinstance(one.state, Waiting) and one.state.reason:
            return one.state.reason, one.state.message
    return "", ""
