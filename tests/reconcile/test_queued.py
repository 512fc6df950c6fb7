"""How long our own jobs wait, by queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from router.hpc import JobReport, JobState, QueueReport
from router.pod.status import PodStatus
from router.reconcile.queued import Line, lines, with_waits
from tests.reconcile.given import pod

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
    told = QueueReport("told", enabled=True, started=True, line=("9", "7"))
    reports = [
        replace(job("short", 30), job_id="3.vm"),
        replace(job("short@vm", 90), job_id="2.vm"),
        replace(job("short", 95), job_id="1.vm", reason="Can Never Run: Insufficient amount of resource: ncpus"),
        replace(job("short", 96, JobState.HELD), job_id="4.vm"),
        replace(job("told", 99), job_id="7"),
    ]
    started = [
        pod(queue="short", created=int(NOW) - 500, status=PodStatus(started=int(NOW) - 100)),
        pod(queue="short", created=int(NOW) - 500, status=PodStatus(started=int(NOW) - 300)),
        pod(queue="short", created=int(NOW) - 200_000, status=PodStatus(started=int(NOW) - 90_000)),
        pod(queue="short", created=int(NOW) - 500),
    ]

    found = lines({**queues, "told": told}, reports, started, NOW)

    assert found == {
        "short": Line({"2.vm": 1, "3.vm": 2}, waits=(200.0, 400.0)),
        "empty": Line(),
        "told": Line({"9": 1, "7": 2}, whole=True),
    }
