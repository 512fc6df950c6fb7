"""How long our own jobs wait, by queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from router.hpc import JobReport, JobState, QueueReport
from router.pod.status import PodStatus
from router.reconcile.model import Counted, Facts, Job, Line
from router.reconcile.queued import lines, with_waits
from tests.reconcile.given import facts, pod

NOW = 10_000.0


def job(queue: str, seconds: float | None, state: JobState = JobState.QUEUED) -> JobReport:
    submitted = None if seconds is None else datetime.fromtimestamp(NOW - seconds, UTC)
    return JobReport("1.vm", state, "", queue=queue, submitted=submitted)


def test_the_longest_wait_of_each_queue() -> None:
    queues = {name: QueueReport(name, enabled=True, started=True) for name in ("short", "long", "empty")}
    told = QueueReport("told", enabled=True, started=True, waited=7)
    reports = [
        job("short", 30),
        job("short", 90.9),
        job("short@vm", 60),
        job("short", 500, JobState.RUNNING),
        job("short", 600, JobState.HELD),
        job("short", None),
        replace(job("short", 900), aside=True),
        job("long", -5),
        job("told", 900),
        job("elsewhere", 900),
    ]

    found = with_waits({**queues, "told": told}, reports, NOW)

    assert {name: state.waited for name, state in found.items()} == {"short": 90, "long": 0, "empty": 0, "told": 7}
    assert found["told"] is told


def test_the_line_of_each_queue() -> None:
    """The batch system's own order, or else that of this cluster's submissions, without jobs that wait for no turn."""
    queues = {name: QueueReport(name, enabled=True, started=True) for name in ("short", "empty")}
    told = QueueReport("told", enabled=True, started=True, line=("9", "7"), listed=frozenset({"9", "7"}))
    reports = [
        replace(job("short", 30), job_id="3.vm"),
        replace(job("short@vm", 90), job_id="2.vm"),
        replace(job("short", 95), job_id="1.vm", aside=True),
        replace(job("short", 96, JobState.HELD), job_id="4.vm"),
        replace(job("told", 99), job_id="7"),
    ]
    began = [began_after(200, 100), began_after(400, 300), began_after(110_000, 90_000)]

    found = lines({**queues, "told": told}, reports, [*began, facts(pod(queue="short"))], NOW, observed=True)

    assert found == {
        "short": Line({"2.vm": 1, "3.vm": 2}, waits=(100.0, 100.0)),
        "empty": Line(),
        "told": Line({"9": 1, "7": 2}, Counted.ALL),
    }


def began_after(created: int, started: int, **fields: str) -> Facts:
    """A Pod that was created and started so many seconds ago."""
    status = PodStatus(started=int(NOW) - started)
    return facts(pod(**{"queue": "short", **fields}, created=int(NOW) - created, status=status))


def test_waits_count_in_the_queue_to_which_a_routing_queue_has_moved_the_job() -> None:
    queues = {name: QueueReport(name, enabled=True, started=True) for name in ("route", "short", "long")}
    moved = replace(began_after(300, 100, queue="route"), jobs=(Job("1.vm", job("short@vm", 300, JobState.RUNNING)),))
    # The batch system has forgotten its job, or this agent has never asked: the Pod's annotation tells.
    noted = began_after(500, 100, queue="route", queue_now="short@vm")

    found = lines(queues, (), [moved, noted, began_after(350, 50, queue="route")], NOW, observed=False)

    assert {name: line.waits for name, line in found.items()} == {
        "route": (300.0,),
        "short": (200.0, 400.0),
        "long": (),
    }


@pytest.mark.parametrize(
    ("line", "listed", "observed", "expected"),
    [
        (("9", "7", "5"), "975", True, Line({"9": 1, "7": 2, "5": 3}, Counted.ALL)),
        (("9", "7", "5"), "975", False, Line({"9": 1, "7": 2, "5": 3}, Counted.SEEN)),
        # The batch system hides bob's jobs from whoever asked: an observer without the right, or ada.
        (("9", "7"), "97", True, Line({"5": 1, "7": 2, "6": 3}, Counted.OWN)),
        (("7",), "7", False, Line({"5": 1, "7": 2, "6": 3}, Counted.OWN)),
        (("9", "5"), "95", False, Line({"5": 1, "7": 2, "6": 3}, Counted.OWN)),
        ((), "", False, Line({"5": 1, "7": 2, "6": 3}, Counted.OWN)),
        # Since the last report a job has begun, or waits for something else than its turn, or has ended.
        (("9", "7"), "975", False, Line({"9": 1, "7": 2}, Counted.SEEN)),
        (("9", "5", "6"), "956", False, Line({"9": 1, "5": 2, "6": 3}, Counted.SEEN)),
    ],
)
def test_a_line_in_which_the_jobs_of_a_user_are_missing_is_no_line(
    line: tuple[str, ...], listed: str, observed: bool, expected: Line
) -> None:
    """With ``PrivateData=jobs`` squeue shows its caller the caller's jobs alone."""
    state = QueueReport("batch", enabled=True, started=True, line=line, listed=frozenset(listed))
    reports = [
        replace(job("batch", 30), job_id="7", owner="ada"),
        replace(job("batch", 20), job_id="6", owner="ada"),
        replace(job("batch", 60), job_id="5", owner="bob"),
    ]

    assert lines({"batch": state}, reports, (), NOW, observed=observed) == {"batch": expected}
