"""Makes the status of a Pod from the facts about it.

Pure. ``status`` works out the present state; ``settled`` merges it into the status on the API server. A terminal status
is never rewritten, an ended container runs again only if it restarts, and unchanged conditions keep their times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from router.hpc import JobState
from router.names import (
    CONDITION_CONTAINERS_READY,
    CONDITION_DISRUPTION,
    CONDITION_INITIALIZED,
    CONDITION_NODE_LOST,
    CONDITION_QUEUED,
    CONDITION_READY,
    CONDITION_SCHEDULED,
    CONDITION_SUSPENDED,
    REASON_BACK_OFF,
    REASON_CONTAINERS_NOT_INITIALIZED,
    REASON_CONTAINERS_NOT_READY,
    REASON_CREATING,
    REASON_DEADLINE,
    REASON_INITIALIZING,
    REASON_JOB_DELETED,
    REASON_LEFT_QUEUE,
    REASON_MEMORY,
    REASON_NODE_LOST,
    REASON_POD_COMPLETED,
    REASON_POD_FAILED,
    REASON_REQUEUED,
    REASON_RESUMED,
    REASON_SUSPENDED,
)
from router.pod.status import (
    CONDITIONS,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Condition,
    ContainerStatus,
    PodStatus,
    Running,
    State,
    Terminated,
    Waiting,
)
from router.pod.view import PodView
from router.reconcile.containers import statuses, waiting
from router.reconcile.following import followed
from router.reconcile.model import Facts, Terms
from router.reconcile.queuewords import WAITS
from router.reconcile.verdicts import Ending
from router.workload.model import ContainerKind

_STARTING: Final = frozenset({REASON_CREATING, REASON_INITIALIZING})
_LEAVES_RUNNING: Final = frozenset({REASON_REQUEUED, REASON_BACK_OFF})
_VERDICTS: Final = frozenset({REASON_MEMORY, REASON_DEADLINE, REASON_JOB_DELETED})
_STARTED: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.EXITING})


def status(facts: Facts, ending: Ending | None, terms: Terms, now: float, *, node_lost: bool = False) -> PodStatus:
    """The Pod's status as it should be on the API server; equal to the stored one if there is nothing to write."""
    stored = facts.pod.status
    before = waiting(facts, now)
    if ending is None and before is None:
        return stored
    every = statuses(facts, before or Waiting(""), ending, now)
    every = tuple(_settled_container(facts.pod, stored.container(one.name), one) for one in every)
    phase = _phase(facts, every, ending)
    mains = {one.name for one in facts.pod.of_kind(ContainerKind.MAIN)}
    queued = before is not None and phase == PENDING and before.reason not in _STARTING
    said = ending or (before if queued else None)
    found = PodStatus(
        phase=phase,
        reason=said.reason if said else "",
        message=said.message if said else "",
        started=_started(facts, now),
        conditions=(
            *_kubelets(facts.pod, every, phase, now),
            *_queued(stored, before if queued and ending is None else None, now),
            *_ours(facts, ending, terms, now, node_lost=node_lost),
        ),
        init_containers=tuple(one for one in every if one.name not in mains),
        containers=tuple(one for one in every if one.name in mains),
    )
    return settled(stored, found)


def settled(stored: PodStatus, found: PodStatus) -> PodStatus:
    """The found status, without taking back anything in the stored one. (Containers are settled one by one before.)"""
    if stored.terminal:
        return stored
    known = {one.kind: one for one in found.conditions}
    for said in stored.conditions:
        if said.kind == CONDITION_DISRUPTION and said.holds:
            known[said.kind] = said  # set by the program that evicts the Pod
        elif said.kind not in known:
            known[said.kind] = said
        elif known[said.kind].status == said.status:
            known[said.kind] = replace(known[said.kind], since=said.since)
    return replace(
        found,
        phase=RUNNING if stored.phase == RUNNING and found.phase == PENDING else found.phase,
        started=stored.started if stored.started is not None else found.started,
        conditions=tuple(known[kind] for kind in CONDITIONS if kind in known),
    )


def _settled_container(pod: PodView, said: ContainerStatus | None, found: ContainerStatus) -> ContainerStatus:
    """The status of one container; the imageID in the stored status is kept if this agent does not know it."""
    shown = _settled_run(pod, said, found)
    image_id = found.image_id or (said.image_id if said is not None else "")
    return shown if shown.image_id == image_id else replace(shown, image_id=image_id)


def _settled_run(pod: PodView, said: ContainerStatus | None, found: ContainerStatus) -> ContainerStatus:
    """The status of one container without taking back what was reported.

    If fewer runs are found than were reported before, some files are not visible yet.
    """
    if said is None:
        return found
    if isinstance(said.state, Terminated) and not _runs_again(pod, said.name, said.state):
        return replace(said, state=_named(said.state, found.state))
    if found.restarts < said.restarts:
        return replace(found, restarts=said.restarts) if isinstance(found.state, Terminated) else said
    if found.restarts > said.restarts:
        return found
    if isinstance(said.state, Running) and isinstance(found.state, Waiting):
        return found if found.state.reason in _LEAVES_RUNNING else said
    same_last = said.last and found.last and said.last.code == found.last.code
    return replace(found, state=_with_times(said.state, found.state), last=said.last if same_last else found.last)


def _named(said: Terminated, found: State) -> Terminated:
    """The reported end, with the reason of the batch system's verdict if the verdict came after the exit file."""
    if not isinstance(found, Terminated) or found.code != said.code or said.reason in _VERDICTS:
        return said
    return replace(said, reason=found.reason) if found.reason in _VERDICTS else said


def _runs_again(pod: PodView, name: str, ended: Terminated) -> bool:
    """Whether the API server lets an ended container run again (ValidateContainerStateTransition)."""
    sidecar = any(one.name == name for one in pod.of_kind(ContainerKind.SIDECAR))
    return sidecar or (pod.restarts and ended.code != 0)


def _with_times(said: State, found: State) -> State:
    """The found state with the times reported before: a file's times may be clamped to now, which moves on."""
    if isinstance(said, Running) and isinstance(found, Running):
        return said
    if isinstance(said, Terminated) and isinstance(found, Terminated) and said.code == found.code:
        return replace(found, started=said.started, finished=said.finished)
    return found


def _phase(facts: Facts, every: tuple[ContainerStatus, ...], ending: Ending | None) -> str:
    """The kubelet's rule: Pending until the init containers have done their work."""
    if ending is not None:
        return SUCCEEDED if ending.succeeded else FAILED
    job = followed(facts)
    if not facts.life.ran and not (job and job.report and job.report.state in _STARTED):
        return PENDING
    mains = {one.name for one in facts.pod.of_kind(ContainerKind.MAIN)}
    if any(_begun(one) for one in every if one.name in mains):
        return RUNNING
    return RUNNING if all(_initialized(facts.pod, one) for one in every if one.name not in mains) else PENDING


def _begun(one: ContainerStatus) -> bool:
    return not isinstance(one.state, Waiting) or one.last is not None


def _initialized(pod: PodView, one: ContainerStatus) -> bool:
    """Whether an init container has done its work, or a sidecar is up."""
    sidecar = any(known.name == one.name for known in pod.of_kind(ContainerKind.SIDECAR))
    return one.started if sidecar else one.ready


def _started(facts: Facts, now: float) -> int | None:
    """When the batch job began. The Pod's activeDeadlineSeconds counts from here, so without the time in the queue."""
    job, notes = followed(facts), facts.life.notes
    report = job.report if job else None
    if notes is not None and notes.start is not None:
        began: float = notes.start.time
    elif report is not None and report.started is not None and (facts.life.ran or report.state in _STARTED):
        began = report.started.timestamp()
    else:
        return None
    return int(max(min(began, now), facts.pod.created))


# --- conditions ---------------------------------------------------------------------------------------------------


def _kubelets(pod: PodView, every: tuple[ContainerStatus, ...], phase: str, now: float) -> tuple[Condition, ...]:
    """The conditions that a kubelet sets, with the kubelet's messages (pkg/kubelet/status/generate.go)."""
    over = {SUCCEEDED: REASON_POD_COMPLETED, FAILED: REASON_POD_FAILED}.get(phase, "")
    mains = {one.name for one in pod.of_kind(ContainerKind.MAIN)}
    sidecars = {one.name for one in pod.of_kind(ContainerKind.SIDECAR)}
    missing = [one.name for one in every if one.name not in mains and not _initialized(pod, one)]
    if phase == SUCCEEDED or any(_begun(one) for one in every if one.name in mains):
        missing = []
    unready = [one.name for one in every if one.name in mains | sidecars and not one.ready]
    since = int(now)
    if over:
        ready = ("False", since, over, "")
    elif unready:
        ready = ("False", since, REASON_CONTAINERS_NOT_READY, _listed("unready", unready))
    else:
        ready = ("True", since, "", "")
    return (
        Condition(CONDITION_SCHEDULED, "True", pod.created),
        Condition(
            CONDITION_INITIALIZED, "False", since, REASON_CONTAINERS_NOT_INITIALIZED, _listed("incomplete", missing)
        )
        if missing
        else Condition(CONDITION_INITIALIZED, "True", since, over if phase == SUCCEEDED else ""),
        Condition(CONDITION_CONTAINERS_READY, *ready),
        Condition(CONDITION_READY, *ready),
    )


def _listed(what: str, names: list[str]) -> str:
    return f"containers with {what} status: [{' '.join(names)}]"


def _queued(stored: PodStatus, wait: Waiting | None, now: float) -> tuple[Condition, ...]:
    """The condition that says why the job waits in its queue; after the wait it stays as False."""
    if wait is not None and wait.reason in WAITS:
        return (Condition(CONDITION_QUEUED, "True", int(now), wait.reason, wait.message),)
    if stored.condition(CONDITION_QUEUED) is not None:
        return (Condition(CONDITION_QUEUED, "False", int(now), REASON_LEFT_QUEUE),)
    return ()


def _ours(facts: Facts, ending: Ending | None, terms: Terms, now: float, *, node_lost: bool) -> tuple[Condition, ...]:
    """The conditions that only a batch system knows of. A condition that has held and no longer does stays as False."""
    job, stored, since = followed(facts), facts.pod.status, int(now)
    found = []
    if ending is None and job and job.report and job.report.state is JobState.SUSPENDED:
        found.append(Condition(CONDITION_SUSPENDED, "True", since, REASON_SUSPENDED, job.report.reason))
    elif stored.holds(CONDITION_SUSPENDED):
        found.append(Condition(CONDITION_SUSPENDED, "False", since, REASON_RESUMED))
    if node_lost:
        words = "the job's node is lost, or its script gives no sign of life; containers left there end by themselves"
        found.append(Condition(CONDITION_NODE_LOST, "True", since, REASON_NODE_LOST, words))
    elif stored.holds(CONDITION_NODE_LOST) and ending is None:
        found.append(Condition(CONDITION_NODE_LOST, "False", since, REASON_RESUMED))
    excused = facts.disruptions < terms.disruptions
    if ending and ending.condition and (ending.condition != CONDITION_DISRUPTION or excused):
        found.append(Condition(ending.condition, "True", since, ending.reason, ending.message))
    return tuple(found)
