"""Which Jobs are told to lack Pods that the cluster refuses to create."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.creations import MOST, FailedCreation, failed_creation, keep_latest, without_pods
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


def test_of_a_long_text_of_an_event_the_beginning_is_kept() -> None:
    """Whoever writes Events may write a MiB into each, which every viewer would hold and be sent."""
    written = {"involvedObject": {"namespace": "a", "name": "b", "uid": "c"}, "message": "x" * 100_000}

    assert failed_creation(written) == FailedCreation("a", "b", "c", "x" * 2000 + "…", 0)


def test_the_latest_event_of_each_job_is_kept() -> None:
    found: dict[tuple[str, str], FailedCreation] = {}
    for name, words, time in (
        ("a", "first", "09:50:00"),
        ("b", "only", "09:40:00"),
        ("a", "last", "09:51:00"),
        ("a", "old", "09:30:00"),
    ):
        keep_latest(found, event(job(name), "FailedCreate", words, time, "Job"))

    assert [(one.job, one.message) for one in found.values()] == [("a", "last"), ("b", "only")]


def test_any_number_of_events_takes_bounded_memory() -> None:
    found: dict[tuple[str, str], FailedCreation] = {}
    for number in range(3 * MOST):
        time = at(f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}")
        keep_latest(found, {"involvedObject": {"uid": str(number)}, "lastTimestamp": time})

    kept = sorted(int(uid) for _, uid in found)
    assert (MOST <= len(kept) <= 2 * MOST, kept[-MOST:]) == (True, list(range(2 * MOST, 3 * MOST)))


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
