"""Which Pods are shown as stuck, with which reason and since when."""

from __future__ import annotations

from typing import Any

import pytest

from router import names
from router.operating.jobs import facts
from router.operating.stuck import DELETION, NEVER_STARTS, NOT_TAKEN_UP, pods
from router.pod.view import view
from tests.operating.objects import NOW, at, job, over, pod


def waits(reason: str) -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": "its words"}}}


OVER = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
NEVER = "DependencyNeverSatisfied (the job that it waits for has ended otherwise than it demands)"
LOST = {"type": names.CONDITION_NODE_LOST, "status": "True", "lastTransitionTime": at("09:40:00"), "message": "no word"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod("a", of="a", reason="QueueFull", message="full"), [("QueueFull", at("09:00:00"), "full")]),
        (pod("a", of="a", reason="Held", message="by ada"), [("Held", at("09:00:00"), "by ada")]),
        (pod("a", of="a", reason="WaitingForOlderRun"), [("WaitingForOlderRun", at("09:00:00"), "")]),
        (pod("a", of="a", reason="SiteStorage"), [("SiteStorage", at("09:00:00"), "")]),
        (pod("a", of="a", reason="SiteRefused", message="mend"), [("SiteRefused", at("09:00:00"), "mend")]),
        (pod("a", of="a", reason="HPCUnavailable", message="no"), [("HPCUnavailable", at("09:00:00"), "no")]),
        (pod("a", of="a", reason="Queued"), []),
        (pod("a", of="a", reason="Queued", message="Priority (jobs of higher priority come first); number 2"), []),
        (pod("a", of="a", reason="Queued", message=NEVER), [(NEVER_STARTS, at("09:00:00"), NEVER)]),
        (
            pod("a", of="a", containerStatuses=[waits("ImagePullBackOff")]),
            [("ImagePullBackOff", at("09:00:00"), "its words")],
        ),
        (
            pod("a", of="a", containerStatuses=[waits("CreateContainerConfigError")]),
            [("CreateContainerConfigError", at("09:00:00"), "its words")],
        ),
        (pod("a", of="a", containerStatuses=[waits("OtherRelease")]), [("OtherRelease", at("09:00:00"), "its words")]),
        (
            pod("a", of="a", containerStatuses=[waits("ContainerCreating")]),
            [("ContainerCreating", at("09:00:00"), "its words")],
        ),
        (pod("a", of="a", created="09:56:00", containerStatuses=[waits("ContainerCreating")]), []),
        (
            pod("a", of="a", annotations={names.KEY_JOB_ID: "7.hpc"}),
            [
                (
                    NOT_TAKEN_UP,
                    at("09:00:00"),
                    "its batch job is 7.hpc, and the agent has not written its state: see the agent's log",
                )
            ],
        ),
        (
            pod("a", of="a"),
            [(NOT_TAKEN_UP, at("09:00:00"), "the agent of its site has said nothing of it; does it run?")],
        ),
        (pod("a", of="a", created="09:59:30"), []),
        (pod("a", of="a", phase="Running"), []),
        (pod("a", of="a", phase="Running", conditions=[LOST]), [("NodeLost", at("09:40:00"), "no word")]),
        (pod("a", of="a", phase="Failed", reason="Refused", message="no"), [("Refused", at("09:00:00"), "no")]),
        (pod("a", of="a", phase="Failed", reason="NotVerified"), [("NotVerified", at("09:00:00"), "")]),
        (pod("done", of="done", phase="Failed", reason="Refused"), []),
        (pod("a", of="a", phase="Failed", reason="Error"), []),
        (
            pod("a", of="a", phase="Running", deleted="09:58:00"),
            [(DELETION, at("09:58:00"), "its batch job is not known to have ended")],
        ),
        (pod("a", of="a", phase="Running", deleted="09:59:30"), []),
        # Its batch job is over; a finalizer of somebody else's holds it.
        (pod("a", of="a", phase="Succeeded", conditions=[OVER], deleted="09:00:00"), []),
    ],
)
def test_a_pod(found: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    jobs = {"job-a": facts(job("a")), "job-done": facts(job("done", status=over("Complete")))}

    assert [(one.reason, one.since, one.message) for one in pods([view(found)], jobs, NOW)] == expected


def test_the_longest_stand_first() -> None:
    found = [view(pod(name, created=clock, reason="Held")) for name, clock in (("b", "09:10:00"), ("a", "09:05:00"))]

    assert [one.name for one in pods(found, {}, NOW)] == ["a", "b"]


def test_a_pod_waits_for_a_batch_system_that_does_not_answer() -> None:
    """Its agent is there, and says so on the Node."""
    waiting, elsewhere = pod("a", of="a"), pod("b", of="b")
    elsewhere["metadata"]["labels"][names.KEY_QUEUE] = "other"

    found = pods(map(view, (waiting, elsewhere)), {}, NOW, {("demo", "batch"): "ssh: connection refused"})

    assert [(one.name, one.reason, one.message) for one in found] == [
        ("a", "HPCUnavailable", "ssh: connection refused"),
        ("b", NOT_TAKEN_UP, "the agent of its site has said nothing of it; does it run?"),
    ]
