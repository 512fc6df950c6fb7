"""The spans of Pods that are over, by how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router.notation import traces
from router.notation.traces import Place, Span
from router.pod.status import FAILED, SUCCEEDED, ContainerStatus, PodStatus, Terminated
from router.pod.view import PodView
from router.reconcile.spans import spans
from tests.reconcile.given import ALL_WELL, JOB, NOTHING, PLAIN, UID, T, facts, job, life, over, report

REVIEW = Place("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
NOW = T + 70.5
POD = traces.of_pod(REVIEW.trace_id, UID, "pod")
TOLD = {
    "k8s.namespace.name": "lab",
    "k8s.pod.uid": UID,
    "k8s.job.uid": "job-uid",
    "batchgate.site": "hpc1",
    "batchgate.queue": "batch",
    "batchgate.rule": "gpu",
    "batchgate.job_id": JOB,
    "batchgate.index": "0",
}


def a_pod(phase: str, *, ran: bool = True, code: int = 0, reason: str = "", restarts: int = 0) -> PodView:
    """A Pod that has ended and has a trace."""
    ended = Terminated(code, "Completed", started=T + 11 if ran else None, finished=T + 50 if ran else None)
    containers = (ContainerStatus("main", ended, restarts=restarts),)
    status = PodStatus(phase, reason, started=T + 10 if ran else None, containers=containers)
    return replace(PLAIN, status=status, trace=str(REVIEW))


def whole(**fields: Any) -> Span:
    return replace(Span("pod", POD, REVIEW, T, NOW, TOLD), **fields)


def part(name: str, began: float, ended: float, error: str = "", **told: str | int) -> Span:
    attributes = {f"batchgate.{key}": value for key, value in told.items()}
    return Span(name, traces.of_pod(REVIEW.trace_id, UID, name), POD, began, ended, attributes, error=error)


SUBMITTED = over(submitted=T + 2)
RAN = (part("submit", T, T + 2), part("queue", T + 2, T + 10))
WITHOUT_JOB = {name: value for name, value in TOLD.items() if name != "batchgate.job_id"}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(
            facts(a_pod(SUCCEEDED), job(SUBMITTED), life=ALL_WELL),
            (whole(), *RAN, part("run", T + 10, T + 50, exit_code=0, restarts=0), part("finish", T + 50, NOW)),
            id="went well",
        ),
        pytest.param(
            facts(a_pod(FAILED, code=137, reason="OOMKilled", restarts=2), job(SUBMITTED), life=ALL_WELL),
            (
                whole(error="OOMKilled"),
                *RAN,
                part("run", T + 10, T + 50, "OOMKilled", exit_code=137, restarts=2),
                part("finish", T + 50, NOW),
            ),
            id="failed",
        ),
        pytest.param(
            facts(a_pod(FAILED, ran=False, reason="Refused")),
            (whole(error="Refused", attributes=WITHOUT_JOB), part("submit", T, NOW, "Refused")),
            id="refused",
        ),
        pytest.param(
            facts(a_pod(FAILED, ran=False, reason="Cancelled"), job(SUBMITTED), life=NOTHING),
            (whole(error="Cancelled"), RAN[0], part("queue", T + 2, NOW, "Cancelled")),
            id="cancelled in the queue",
        ),
        pytest.param(
            facts(a_pod(SUCCEEDED), job(None), life=ALL_WELL),
            (
                whole(),
                part("queue", T, T + 10),
                part("run", T + 10, T + 50, exit_code=0, restarts=0),
                part("finish", T + 50, NOW),
            ),
            id="no record of the batch system",
        ),
        pytest.param(
            facts(a_pod(SUCCEEDED), job(over(submitted=T - 500)), life=ALL_WELL),
            (
                whole(),
                part("submit", T, T),
                part("queue", T, T + 10),
                part("run", T + 10, T + 50, exit_code=0, restarts=0),
                part("finish", T + 50, NOW),
            ),
            id="a clock that is slow",
        ),
        pytest.param(
            facts(a_pod(SUCCEEDED), job(over(submitted=T + 5000)), life=ALL_WELL),
            (
                whole(),
                part("submit", T, NOW),
                part("queue", NOW, NOW),
                part("run", NOW, NOW, exit_code=0, restarts=0),
                part("finish", NOW, NOW),
            ),
            id="a clock that is fast",
        ),
        pytest.param(facts(replace(a_pod(SUCCEEDED), trace=""), job(SUBMITTED)), (), id="no trace"),
        pytest.param(facts(replace(a_pod(SUCCEEDED), trace="00-x"), job(SUBMITTED)), (), id="no valid trace"),
    ],
)
def test_what_is_told_of_a_pod(known: Any, expected: tuple[Span, ...]) -> None:
    assert spans(known, (), NOW) == expected


def test_a_pod_is_linked_with_those_that_failed_before_it() -> None:
    known = facts(a_pod(SUCCEEDED), job(SUBMITTED), life=ALL_WELL)
    others = [
        replace(a_pod(FAILED), uid="second", created=T - 50),
        replace(a_pod(FAILED), uid="first", created=T - 90),
        replace(a_pod(SUCCEEDED), uid="well", created=T - 90),
        replace(a_pod(FAILED), uid="later", created=T + 50),
        replace(a_pod(FAILED), uid="untraced", created=T - 90, trace=""),
    ]

    found, *parts = spans(known, others, NOW)

    assert found == whole(links=tuple(traces.of_pod(REVIEW.trace_id, uid, "pod") for uid in ("first", "second")))
    assert [one.links for one in parts] == [()] * 4


def test_of_many_tries_the_last_ten_are_linked() -> None:
    known = facts(a_pod(SUCCEEDED), job(SUBMITTED), life=ALL_WELL)
    others = [replace(a_pod(FAILED), uid=f"{number}", created=T - 100 + number) for number in range(30)]

    assert spans(known, others, NOW)[0].links == tuple(
        traces.of_pod(REVIEW.trace_id, f"{number}", "pod") for number in range(20, 30)
    )


def test_without_exit_files_the_run_ends_with_the_scripts_note_or_the_record() -> None:
    lost = replace(a_pod(FAILED), status=PodStatus(FAILED, "NodeFailed", started=T + 10))

    noted = facts(lost, job(SUBMITTED), life=ALL_WELL)
    recorded = facts(lost, job(over(submitted=T + 2)), life=life())
    neither = facts(lost, job(report(submitted=T + 2)), life=life())

    assert [spans(one, (), NOW)[3].ended for one in (noted, recorded, neither)] == [T + 55, T + 60, NOW]
