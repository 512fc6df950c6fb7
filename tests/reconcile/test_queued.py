"""How long our own jobs wait, by queue."""

from __future__ import annotations

from datetime import UTC, datetime

from router.hpc import JobReport, JobState, QueueReport
from router.reconcile.queued import with_waits

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
