"""How far a Job is, from its status and its Pods."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.jobs import JobFacts, JobState, facts, state
from router.pod.view import view
from tests.operating.objects import at, job, over, pod

RUNS = pod("a", of="a", phase="Running")


def test_what_is_kept_of_a_job() -> None:
    found = facts(job("a", status={"startTime": at("09:10:00"), "ready": 1}, spec={"suspend": True}))

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
    )


@pytest.mark.parametrize(
    ("fields", "pods", "expected"),
    [
        ({}, [], JobState.WAITING),
        ({}, [pod("a", of="a")], JobState.WAITING),
        ({}, [RUNS], JobState.RUNNING),
        ({"status": {"ready": 1}}, [], JobState.RUNNING),
        ({"spec": {"suspend": True}}, [], JobState.SUSPENDED),
        ({"spec": {"suspend": True}}, [RUNS], JobState.RUNNING),
        ({"deleted": at("09:30:00")}, [RUNS], JobState.DELETING),
        ({"status": over("Complete")}, [], JobState.COMPLETE),
        ({"status": over("Failed"), "deleted": at("09:30:00")}, [], JobState.FAILED),
        ({"status": over("SuccessCriteriaMet")}, [RUNS], JobState.RUNNING),
    ],
)
def test_how_far_a_job_is(fields: dict[str, Any], pods: list[dict[str, Any]], expected: JobState) -> None:
    assert state(facts(job("a", **fields)), tuple(view(one) for one in pods)) is expected
