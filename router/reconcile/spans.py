"""Makes the spans of a Pod that is over, from what is known of it: when it was made, submitted, started, ended, told.

Pure. Nothing is told before the end, so an agent that is restarted in between tells each span once. The spans of the
webhook and those that a user's own programs make hang at the same places, as the ids follow from the Pod's uid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from router.hpc import JobReport
from router.notation import traces
from router.notation.traces import Place, Span
from router.pod.layout import NO_INDEX
from router.pod.status import FAILED, ContainerStatus, PodStatus, Terminated
from router.pod.view import PodView
from router.reconcile.following import followed
from router.reconcile.model import Facts

POD: Final = "pod"
"""From the Pod's creation until its end is told. The others are parts of it, one after the other."""
SUBMIT: Final = "submit"
"""Until the batch system has the job."""
QUEUE: Final = "queue"
"""Until the script begins."""
RUN: Final = "run"
"""Until the last container has ended."""
FINISH: Final = "finish"
"""Until the end is told, with logs and results brought back."""

_MOST_LINKS: Final = 10


def place_of(pod: PodView, name: str) -> Place | None:
    """The place of a span of a Pod; None for a Pod without a trace."""
    review = traces.read(pod.trace)
    return None if review is None else traces.of_pod(review.trace_id, pod.uid, name)


def spans(facts: Facts, siblings: Iterable[PodView], now: float) -> tuple[Span, ...]:
    """The spans of a Pod with a terminal status; none for a Pod without a trace.

    :param siblings: other Pods of the same Job and index
    :param now: when the end was told
    """
    pod, status = facts.pod, facts.pod.status
    review = traces.read(pod.trace)
    if review is None:
        return ()
    place = traces.of_pod(review.trace_id, pod.uid, POD)
    error = (status.reason or "Failed") if status.phase == FAILED else ""
    links = tuple(_tried_before(pod, siblings))
    whole = Span(POD, place, review, pod.created, max(now, pod.created), _attributes(facts), links, error)
    return (whole, *_parts(facts, place, whole.ended, error))


def _parts(facts: Facts, above: Place, now: float, error: str) -> Iterator[Span]:
    """The parts, without a gap. A part that failed has the error: the run, if there was one, else the last."""
    began: float = facts.pod.created
    ends = _ends(facts, now)
    failed = RUN if RUN in ends else [*ends][-1]
    for name, at in ends.items():
        # The times come from several clocks.
        ended = min(max(began, at), now)
        place = traces.of_pod(above.trace_id, facts.pod.uid, name)
        told = _of_run(facts.pod.status) if name == RUN else {}
        yield Span(name, place, above, began, ended, told, error=error if name == failed else "")
        began = ended


def _ends(facts: Facts, now: float) -> dict[str, float]:
    """When each part ended. If the batch system does not tell when it got the job, the wait has the time before, too."""
    job, status = followed(facts), facts.pod.status
    if job is None:
        return {SUBMIT: now}
    report = job.report
    submitted = report.submitted if report is not None else None
    found = {} if submitted is None else {SUBMIT: submitted.timestamp()}
    if status.started is None:
        return {**found, QUEUE: now}
    return {**found, QUEUE: status.started, RUN: _run_ended(facts, report, now), FINISH: now}


def _run_ended(facts: Facts, report: JobReport | None, now: float) -> float:
    """When the last container ended, by its exit file; else by the script's end note, the batch system, or now."""
    known = [one.state.finished for one in _containers(facts.pod.status) if isinstance(one.state, Terminated)]
    if times := [one for one in known if one is not None]:
        return max(times)
    if facts.life.end is not None:
        return facts.life.end.time
    return report.ended.timestamp() if report is not None and report.ended is not None else now


def _containers(status: PodStatus) -> tuple[ContainerStatus, ...]:
    return (*status.init_containers, *status.containers)


def _attributes(facts: Facts) -> dict[str, str | int]:
    """What the span of a Pod tells: uids and names of the site, no name or value of a user's."""
    pod, job = facts.pod, followed(facts)
    told = {
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.uid": pod.uid,
        "k8s.job.uid": pod.job_uid,
        "batchgate.site": pod.site,
        "batchgate.queue": pod.queue,
        "batchgate.rule": pod.rule,
        "batchgate.job_id": job.job_id if job is not None else "",
        "batchgate.index": "" if pod.index == NO_INDEX else pod.index,
    }
    return {name: value for name, value in told.items() if value}


def _of_run(status: PodStatus) -> dict[str, str | int]:
    codes = [one.state.code for one in _containers(status) if isinstance(one.state, Terminated)]
    restarts = sum(one.restarts for one in _containers(status))
    return {"batchgate.exit_code": max(codes, default=0), "batchgate.restarts": restarts}


def _tried_before(pod: PodView, siblings: Iterable[PodView]) -> Iterator[Place]:
    """The spans of Pods that failed before this one was made, the latest ones, oldest first."""
    failed = [
        (one.created, one.uid, place)
        for one in siblings
        if one.status.phase == FAILED and (one.created, one.uid) < (pod.created, pod.uid)
        if (place := place_of(one, POD)) is not None
    ]
    for _, _, place in sorted(failed, key=lambda one: one[:2])[-_MOST_LINKS:]:
        yield place
