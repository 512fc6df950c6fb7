"""A Job as operators see it: its target, its phase, and since when.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from router.names import KEY_QUEUE, KEY_SITE, KEY_TARGET
from router.pod.status import RUNNING, seconds
from router.pod.view import PodView

_ENDS: Final = ("Complete", "Failed")


class JobPhase(StrEnum):
    """A Job's phase. ``WAITING``: no Pod of it runs yet."""

    WAITING = "waiting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    DELETING = "deleting"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The fields that are kept of a Job. ``since``: when it was started or, before that, created (seconds since 1970).

    ``finished``: ``Complete``, ``Failed`` or empty. ``ready``, ``active``, ``ended``: numbers of Pods by its status: those that
    are ready; those that wait, run or are being deleted; those that have ended.
    """

    namespace: str
    name: str
    uid: str
    target: str
    site: str
    queue: str
    since: int
    finished: str
    deleting: bool
    suspended: bool
    ready: int
    active: int
    ended: int


def facts(job: Mapping[str, Any]) -> JobFacts:
    """The kept fields of a Job from the API."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    labels = metadata.get("labels") or {}
    return JobFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        target=labels.get(KEY_TARGET) or "",
        site=labels.get(KEY_SITE) or "",
        queue=labels.get(KEY_QUEUE) or "",
        since=seconds(status.get("startTime")) or seconds(metadata.get("creationTimestamp")) or 0,
        finished=finish(status),
        deleting=metadata.get("deletionTimestamp") is not None,
        suspended=spec.get("suspend") is True,
        ready=int(status.get("ready") or 0),
        active=int(status.get("active") or 0) + int(status.get("terminating") or 0),
        ended=int(status.get("succeeded") or 0) + int(status.get("failed") or 0),
    )


def finish(status: Mapping[str, Any]) -> str:
    """``Complete`` or ``Failed`` by a finished Job's conditions; else empty."""
    kinds = [one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"]
    return next((kind for kind in _ENDS if kind in kinds), "")


def condition_of_end(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition by which a Job is finished, or empty."""
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("status") == "True" and one.get("type") in _ENDS), {})


def state(job: JobFacts, pods: tuple[PodView, ...]) -> JobPhase:
    """A Job's phase; ``pods`` are its known Pods."""
    if job.finished:
        return JobPhase.COMPLETE if job.finished == "Complete" else JobPhase.FAILED
    if job.deleting:
        return JobPhase.DELETING
    if job.ready or any(pod.status.phase == RUNNING for pod in pods):
        return JobPhase.RUNNING
    return JobPhase.SUSPENDED if job.suspended else JobPhase.WAITING
