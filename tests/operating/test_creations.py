"""Which Jobs are told to lack Pods that the cluster refuses to create."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.creations import FailedCreation, failed_creation, without_pods
from router.operating.jobs import facts
from router.operating.stuck import Stuck
from router.pod.view import view
from tests.operating.objects import NOW, at, event, job, over, pod

TEN_TO_TEN = int(NOW) - 600
REFUSED = FailedCreation("default", "a", "job-a", "exceeded quota: small", TEN_TO_TEN)
TOLD = Stuck("Job", "default", "a", "a", "demo", "batch", "FailedCreate", at("09:00:00"), "exceeded quota: small")


def test_an_event_is_kept_by_its_last_time() -> None:
    about = event(job("a"), "FailedCreate", "exceeded quota: small", "09:50:00", "Job")
    about["involvedObject"]["namespace"] = "default"

    assert failed_creation(about) == REFUSED


@pytest.mark.parametrize(
    ("fields", "pods", "expected"),
    [
        ({}, [], [TOLD]),
        ({"created": "09:59:30"}, [], []),  # it may yet get what it lacks, such as its service account
        ({"status": {"active": 1}}, [], []),  # whoever may not list Pods sees this much
        ({"status": {"ready": 1}}, [], []),
        ({"status": {"terminating": 1}}, [], []),
        ({"status": over("Failed")}, [], []),
        ({"deleted": at("09:30:00")}, [], []),
        ({"spec": {"suspend": True}}, [], []),
        ({}, [pod("a-1", of="a", created="09:40:00")], []),
        ({}, [pod("a-1", of="a", created="09:40:00", phase="Failed")], [TOLD]),
        ({}, [pod("a-1", of="a", created="09:55:00", phase="Failed")], []),  # it pauses after a failure
        ({}, [pod("b-1", of="b", created="09:55:00")], [TOLD]),
    ],
)
def test_a_job(fields: dict[str, Any], pods: list[dict[str, Any]], expected: list[Stuck]) -> None:
    found = [facts(job("a", **fields))]

    assert list(without_pods(found, map(view, pods), [REFUSED], NOW)) == expected


def test_of_several_events_the_last_is_told_and_the_longest_waiting_stands_first() -> None:
    jobs = [
        facts(job(name, created=clock)) for name, clock in (("b", "09:10:00"), ("a", "09:05:00"), ("c", "09:00:00"))
    ]
    failed = [
        FailedCreation("default", "b", "job-b", "later", TEN_TO_TEN + 60),
        FailedCreation("default", "b", "job-b", "earlier", TEN_TO_TEN),
        REFUSED,
        FailedCreation("elsewhere", "c", "job-c", "of another namespace", TEN_TO_TEN),
    ]

    assert [(one.name, one.message) for one in without_pods(jobs, (), failed, NOW)] == [
        ("a", "exceeded quota: small"),
        ("b", "later"),
    ]
