"""Decides which Events to write when a Pod's status changes.

Pure. The Events follow from the difference between the stored status and the new one, so the agent need not remember
earlier Events. An agent that is killed in between may write an Event twice or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from router.names import (
    CONDITION_NODE_LOST,
    CONDITION_SUSPENDED,
    KEY_JOB_ID,
    MOUNT_FAILED,
    REASON_BACK_OFF,
    REASON_CREATE_CONTAINER,
    REASON_CREATING,
    REASON_ERR_IMAGE_NEVER_PULL,
    REASON_FAILED_MOUNT,
    REASON_IMAGE_PULL_BACK_OFF,
    REASON_INITIALIZING,
    REASON_PULLING,
    REASON_RESUMED,
    REASON_STARTED,
    REASON_SUBMITTED,
)
from router.pod.status import FAILED, PENDING, PodStatus, Waiting
from router.reconcile.following import followed
from router.reconcile.model import NORMAL, WARNING, Facts, Tell
from router.reconcile.queuewords import WAITS

_QUIET = frozenset({"", REASON_CREATING, REASON_INITIALIZING, REASON_BACK_OFF})
_OWN_WORDS = frozenset({REASON_CREATE_CONTAINER, REASON_ERR_IMAGE_NEVER_PULL})
"""Reasons that concern an image but are no failed pull: they are told in their own words."""


def events(facts: Facts, found: PodStatus, annotations: Mapping[str, str]) -> tuple[Tell, ...]:
    """The Events to write together with this status and these annotations."""
    told = [*_submitted(facts, annotations)]
    if found != facts.pod.status:
        told += [
            *_waits(facts, found),
            *_pulling(facts, found),
            *_not_mounted(facts, found),
            *_begins(facts, found),
            *_restarts(facts.pod.status, found),
        ]
        told += [*_conditions(facts.pod.status, found), *_fails(facts.pod.status, found)]
    return tuple(told)


def _submitted(facts: Facts, annotations: Mapping[str, str]) -> Iterator[Tell]:
    if KEY_JOB_ID in annotations:
        job_id = annotations[KEY_JOB_ID]
        yield Tell(NORMAL, REASON_SUBMITTED, f"Batch job {job_id} in queue {facts.pod.queue} of site {facts.pod.site}")


def _waits(facts: Facts, found: PodStatus) -> Iterator[Tell]:
    """Why the Pod waits before its job is submitted; ``queuewords`` tells why a submitted job waits."""
    stored, image = facts.pod.status, facts.attempt.image if facts.attempt else ""
    now, before = (found.reason, found.message), (stored.reason, stored.message)
    if found.phase != PENDING or now == before or found.reason in _QUIET | WAITS:
        return
    if image and found.reason not in _OWN_WORDS:
        yield from _not_pulled(image, found)
        return
    yield Tell(WARNING, found.reason, found.message or found.reason)


def _not_pulled(image: str, found: PodStatus) -> Iterator[Tell]:
    """The Events of a failed pull, as a kubelet writes them.

    See pkg/kubelet/images/image_manager.go; kuberuntime adds "Error" with the reason alone. The Event about the
    back-off repeats the message of the failure, whose own Event may have expired by then.
    """
    if found.reason == REASON_IMAGE_PULL_BACK_OFF:
        yield Tell(NORMAL, "BackOff", found.message or f'Back-off pulling image "{image}"')
    else:
        yield Tell(WARNING, "Failed", f'Failed to pull image "{image}": {found.message}')
    yield Tell(WARNING, "Failed", f"Error: {found.reason}")


def _pulling(facts: Facts, found: PodStatus) -> Iterator[Tell]:
    attempt = facts.attempt
    if attempt is not None and attempt.image and attempt.reason == REASON_CREATING and _newly_waits(facts, found):
        yield Tell(NORMAL, REASON_PULLING, attempt.message)


def _not_mounted(facts: Facts, found: PodStatus) -> Iterator[Tell]:
    """The Event of a volume that cannot be made, as a kubelet writes it."""
    attempt = facts.attempt
    if attempt is not None and attempt.message.startswith(MOUNT_FAILED) and _newly_waits(facts, found):
        yield Tell(WARNING, REASON_FAILED_MOUNT, attempt.message)


def _newly_waits(facts: Facts, found: PodStatus) -> bool:
    """Whether containers now wait with the words of the last attempt, and the stored status does not say so."""
    if facts.attempt is None or not facts.attempt.message:
        return False
    wait = Waiting(facts.attempt.reason, facts.attempt.message)
    waits = [one for one in (*found.init_containers, *found.containers) if one.state == wait]
    before = [said.state for one in waits if (said := facts.pod.status.container(one.name)) is not None]
    return bool(waits) and wait not in before


def _begins(facts: Facts, found: PodStatus) -> Iterator[Tell]:
    if found.started is None or facts.pod.status.started is not None:
        return
    job = followed(facts)
    notes = facts.life.notes
    nodes = job.report.hosts if job and job.report else ""
    host = nodes or (notes.start.host if notes and notes.start else "")
    where = f" on {host}" if host else ""
    yield Tell(NORMAL, REASON_STARTED, f"Batch job {job.job_id if job else ''} has started{where}")


def _restarts(stored: PodStatus, found: PodStatus) -> Iterator[Tell]:
    for one in (*found.init_containers, *found.containers):
        was = stored.container(one.name)
        backs_off = isinstance(one.state, Waiting) and one.state.reason == REASON_BACK_OFF
        if isinstance(one.state, Waiting) and backs_off and (was is None or was.state != one.state):
            yield Tell(WARNING, "BackOff", f"Container {one.name} {one.state.message}")


def _conditions(stored: PodStatus, found: PodStatus) -> Iterator[Tell]:
    for kind in (CONDITION_SUSPENDED, CONDITION_NODE_LOST):
        now = found.condition(kind)
        if now is None or now.holds == stored.holds(kind):
            continue
        words = now.message or ("The batch system has suspended the job" if now.holds else "The job goes on")
        yield Tell(WARNING if now.holds else NORMAL, kind if now.holds else REASON_RESUMED, words)


def _fails(stored: PodStatus, found: PodStatus) -> Iterator[Tell]:
    if found.phase == FAILED and not stored.terminal and found.reason:
        yield Tell(WARNING, found.reason, found.message or found.reason)
