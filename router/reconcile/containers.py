"""Works out container states, as a kubelet would report them, from the files that the script has left.

Pure. Init containers are ready when they have exited with 0; sidecars and main containers are ready while they run.
Times come from the files. As clocks differ, they are clamped to the time between the Pod's creation and now.
"""

from __future__ import annotations

from typing import Final

from router.hpc import JobState
from router.names import (
    CONDITION_MEMORY,
    REASON_BACK_OFF,
    REASON_COMPLETED,
    REASON_CREATING,
    REASON_DEADLINE,
    REASON_ERROR,
    REASON_HELD,
    REASON_INITIALIZING,
    REASON_JOB_DELETED,
    REASON_MEMORY,
    REASON_OLDER_RUN,
    REASON_QUEUED,
    REASON_REQUEUED,
    REASON_SITE_REFUSED,
    REASON_UNKNOWN,
)
from router.pod.life import Exit, Run
from router.pod.status import ContainerStatus, Running, State, Terminated, Waiting
from router.pod.view import PodContainer
from router.reconcile import queuewords
from router.reconcile.following import followed
from router.reconcile.model import Facts
from router.reconcile.verdicts import Ending
from router.workload.model import ContainerKind

_KILLED: Final = 137
_MOST_SAID: Final = 12 * 1024
"""Most bytes that the messages of all containers of a Pod may have: the kubelet's MaxPodTerminationMessageLogLength."""
_VERDICTS: Final = frozenset({REASON_MEMORY, REASON_DEADLINE, REASON_JOB_DELETED})
_UNRECORDED: Final = "the Pod ended before this container's exit code was recorded"
_RUNS: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.EXITING})
_QUEUES: Final = {JobState.QUEUED: REASON_QUEUED, JobState.HELD: REASON_HELD}


def waiting(facts: Facts, now: float) -> Waiting | None:
    """Why containers that have not started are waiting; None if the stored status still says it."""
    job = followed(facts)
    state = job.report.state if job and job.report else None
    if job and job.report and state in _QUEUES:
        words = queuewords.words(facts, job, job.report, now)
        return Waiting(REASON_REQUEUED if facts.life.ran else _QUEUES[state], words)
    if facts.life.ran or state in _RUNS:
        init = facts.pod.of_kind(ContainerKind.INIT, ContainerKind.SIDECAR)
        return Waiting(REASON_INITIALIZING if init else REASON_CREATING)
    if job is None:
        return _before_submission(facts)
    return None if state is not None or _stored_waiting(facts) else Waiting(REASON_QUEUED)


def _before_submission(facts: Facts) -> Waiting | None:
    if facts.older:
        return Waiting(REASON_OLDER_RUN, "; ".join(facts.older))
    if facts.refused:
        return Waiting(REASON_SITE_REFUSED, facts.refused)
    return Waiting(facts.attempt.reason, facts.attempt.message) if facts.attempt else None


def _stored_waiting(facts: Facts) -> bool:
    status = facts.pod.status
    states = [one.state for one in (*status.init_containers, *status.containers)]
    return any(isinstance(state, Waiting) and state.reason in _QUEUES.values() for state in states)


def statuses(facts: Facts, before: Waiting, ending: Ending | None, now: float) -> tuple[ContainerStatus, ...]:
    """Every container's status, in the order of the view.

    :param before: why containers that have not started are waiting
    """
    return tuple(_status(facts, one, before, ending, now) for one in facts.pod.containers)


def _status(
    facts: Facts, container: PodContainer, before: Waiting, ending: Ending | None, now: float
) -> ContainerStatus:
    run = facts.life.run(container.name)
    before = _own(facts, container, before)
    state = _over(facts, container, run, ending, now) if ending else _going(facts, container, run, before, now)
    running = isinstance(state, Running)
    done = container.kind is ContainerKind.INIT and isinstance(state, Terminated) and state.code == 0
    last = run.previous if run else None
    if run and run.exit and isinstance(state, Waiting):
        last = run.exit
    return ContainerStatus(
        name=container.name,
        state=state,
        last=_ended(facts, last, None, now) if last else None,
        restarts=run.restart if run else 0,
        ready=(running and (run is None or (run.up and run.ready))) or done,
        started=running and (run is None or run.up),
        image_id=facts.image_ids.get(container.name, ""),
    )


def _own(facts: Facts, container: PodContainer, before: Waiting) -> Waiting:
    """Why one container is waiting: a problem with an image is reported only on containers that use this image."""
    attempt = facts.attempt
    if attempt is None or attempt.image in {"", container.image} or before.reason != attempt.reason:
        return before
    return Waiting(REASON_CREATING)


def _going(facts: Facts, container: PodContainer, run: Run | None, before: Waiting, now: float) -> State:
    """The container's state while the Pod has not ended."""
    if run is None:
        return before
    if run.exit is None:
        if before.reason == REASON_REQUEUED:
            return before
        began = run.began if run.began is not None else run.exited.time if run.exited else now
        return Running(_clamped(facts, began, now))
    by_policy = container.kind is ContainerKind.SIDECAR or (facts.pod.restarts and run.exit.code != 0)
    again = run.exit.again == "yes" if run.exit.again else by_policy
    if again and facts.life.end is None:
        why = run.exit.message or f"exited with code {run.exit.code}"
        return Waiting(run.exit.reason or REASON_BACK_OFF, f"{why}; the container will be restarted")
    return _ended(facts, run.exit, None, now)


def _over(facts: Facts, container: PodContainer, run: Run | None, ending: Ending, now: float) -> State:
    """The container's state after the Pod has ended."""
    if run is None:
        return _never_begun(facts, container, ending, now)
    if run.exit is not None:
        return _ended(facts, run.exit, ending, now)
    began = None if run.began is None else _clamped(facts, run.began, now)
    if run.exited is not None:
        reason = REASON_COMPLETED if run.exited.code == 0 else REASON_ERROR
        finished = _clamped(facts, run.exited.time, now)
        return Terminated(run.exited.code, reason, _signal(run.exited.code), started=began, finished=finished)
    return _unrecorded(facts, ending, began, now)


def _never_begun(facts: Facts, container: PodContainer, ending: Ending, now: float) -> State:
    """The state of a container without any files. A state reported earlier, when there were files, still holds."""
    said = facts.pod.status.container(container.name)
    if said is not None and isinstance(said.state, Running):
        return _unrecorded(facts, ending, said.state.started, now)
    if said is not None and isinstance(said.state, Terminated):
        return said.state
    if ending.never_ran:
        return Waiting(ending.reason)
    before = facts.pod.of_kind(ContainerKind.INIT)
    ready = all(_well(facts, one) for one in before)
    if container.kind is not ContainerKind.MAIN or not ready:
        return Waiting(REASON_INITIALIZING)
    if facts.life.end is not None:
        return Waiting(ending.reason or REASON_ERROR)
    return _unrecorded(facts, ending, None, now)


def _well(facts: Facts, container: PodContainer) -> bool:
    run = facts.life.run(container.name)
    return run is not None and run.exit is not None and run.exit.code == 0


def _unrecorded(facts: Facts, ending: Ending, started: int | None, now: float) -> Terminated:
    """The state of a container that was killed together with its script, or whose exit file was lost."""
    job = followed(facts)
    ended = job.report.ended.timestamp() if job and job.report and job.report.ended else now
    finished = max(_clamped(facts, ended, now), started or 0)
    reason = ending.reason if ending.reason in _VERDICTS else REASON_UNKNOWN
    return Terminated(_KILLED, reason, _signal(_KILLED), _UNRECORDED, started, finished)


def _ended(facts: Facts, one: Exit, ending: Ending | None, now: float) -> Terminated:
    started = _clamped(facts, one.started, now)
    finished = max(_clamped(facts, one.finished, now), started)
    message = ": ".join([words for words in (one.message, one.said) if words])
    return Terminated(one.code, _reason(facts, one, ending), one.signal, _cut(facts, message), started, finished)


def _cut(facts: Facts, message: str) -> str:
    """The message, cut to the container's share of the limit for all messages of a Pod."""
    most = _MOST_SAID // max(1, len(facts.pod.containers))
    return message.encode()[:most].decode(errors="ignore")


def _reason(facts: Facts, one: Exit, ending: Ending | None) -> str:
    """Why a container ended: the file's own reason, else from the batch system's verdict, else from the exit code."""
    if one.reason:
        return one.reason
    if one.deadline or (ending and ending.reason == REASON_DEADLINE and one.signal):
        return REASON_DEADLINE
    if ending and ending.condition == CONDITION_MEMORY and (one.signal == 9 or not _anyone_killed(facts)):
        return REASON_MEMORY
    if ending and ending.reason == REASON_JOB_DELETED and _was_told_to_end(facts, one):
        return REASON_JOB_DELETED  # kubectl shows a container's reason in place of the Pod's
    return REASON_COMPLETED if one.code == 0 else REASON_ERROR


def _was_told_to_end(facts: Facts, one: Exit) -> bool:
    """Whether the deletion of the batch job ended this container.

    It ended the containers that a signal killed. If there are none, it ended the last one, which caught the signal.
    """
    runs = [facts.life.run(container.name) for container in facts.pod.containers]
    exits = [run.exit for run in runs if run is not None and run.exit is not None]
    if any(other.signal for other in exits):
        return one.signal != 0
    return one.finished >= max(other.finished for other in exits)


def _anyone_killed(facts: Facts) -> bool:
    runs = [facts.life.run(one.name) for one in facts.pod.containers]
    return any(run is not None and (run.exit is None or run.exit.signal == 9) for run in runs)


def _signal(code: int) -> int:
    return code - 128 if 128 < code < 160 else 0


def _clamped(facts: Facts, time: float, now: float) -> int:
    return int(max(min(time, now), facts.pod.created))
