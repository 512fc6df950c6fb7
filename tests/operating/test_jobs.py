"""How far a Job is, from its status and its Pods."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.jobs import JobFacts, JobPhase, facts, state
from router.pod.view import view
from tests.operating.objects import at, job, over, pod

RUNS = pod("a", of="a", phase="Running")


def test_what_is_kept_of_a_job() -> None:
    found = facts(
        job("a", status={"startTime": at("09:10:00"), "ready": 1, "active": 2, "failed": 3}, spec={"suspend": True})
    )

    assert found == JobFacts(
        namespace="default",
        name="a",
        uid="job-a",
        target="hpc",
        site="demo",
        queue="batch",
        since=1_767_258_600,
        finished="",
        deleting=False,
        suspended=True,
        ready=1,
        active=2,
        ended=3,
    )


@pytest.mark.parametrize(
    ("fields", "pods", "expected"),
    [
        ({}, [], JobPhase.WAITING),
        ({}, [pod("a", of="a")], JobPhase.WAITING),
        ({}, [RUNS], JobPhase.RUNNING),
        ({"status": {"ready": 1}}, [], JobPhase.RUNNING),
        ({"spec": {"suspend": True}}, [], JobPhase.SUSPENDED),
        ({"spec": {"suspend": True}}, [RUNS], JobPhase.RUNNING),
        ({"deleted": at("09:30:00")}, [RUNS], JobPhase.DELETING),
        ({"status": over("Complete")}, [], JobPhase.COMPLETE),
        ({"status": over("Failed"), "deleted": at("09:30:00")}, [], JobPhase.FAILED),
        ({"status": over("SuccessCriteriaMet")}, [RUNS], JobPhase.RUNNING),
    ],
)
def test_how_far_a_job_is(fields: dict[str, Any], pods: list[dict[str, Any]], expected: JobPhase) -> None:
    assert state(facts(job("a", **fields)), tuple(view(one) for one in pods)) is expected
