"""The webhook's replicas and waiting certificate requests, from objects as the API serves them."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.replicas import PendingRequest, Replica, Webhook, pending, webhook
from tests.operating.objects import NOW, at

Json = dict[str, Any]
DIGEST = "0123456789ab" + "f" * 52
SAID: Json = {
    "policy": {"generation": 2, "digest": DIGEST, "loadedAt": "2026-01-01T09:00:00+00:00"},
    "certificate": {"notAfter": "2026-01-11T09:59:59+00:00"},
    "errors": {},
}


def deployment(replicas: int, ready: int | None = None) -> Json:
    return {"spec": {"replicas": replicas}, "status": {} if ready is None else {"readyReplicas": ready}}


def pod(name: str, *, ready: bool = True, waiting: Json | None = None) -> Json:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    containers = [{"state": {"waiting": waiting} if waiting else {"running": {}}}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions, "containerStatuses": containers}}


CRASH = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}


@pytest.mark.parametrize(
    ("made", "told", "expected"),
    [
        (pod("a"), SAID, Replica("a", True, True, "0123456789ab", "2026-01-01T09:00:00+00:00", 9, {})),
        (
            pod("a"),
            {**SAID, "certificate": {**SAID["certificate"], "caNotAfter": "2028-01-01T10:00:00+00:00"}},
            Replica("a", True, True, "0123456789ab", "2026-01-01T09:00:00+00:00", 9, {}, 730),
        ),
        (
            pod("a", ready=False),
            {"policy": {"digest": None, "loadedAt": None}, "certificate": {}, "errors": {"policy": "all.yaml:1: no"}},
            Replica("a", False, True, trouble={"policy": "all.yaml:1: no"}),
        ),
        (
            pod("a"),
            {**SAID, "certificate": {"notAfter": "2026-01-01T09:00:00+00:00"}},
            Replica("a", True, True, "0123456789ab", "2026-01-01T09:00:00+00:00", -1, {}),
        ),
        (pod("a"), None, Replica("a", True, False, trouble={})),
        (pod("a"), "it does not answer: EOF", Replica("a", True, False, trouble={"pod": "it does not answer: EOF"})),
        (
            pod("a", ready=False, waiting=CRASH),
            "it does not answer: connection refused",
            Replica("a", False, False, trouble={"pod": "CrashLoopBackOff: back-off 10s"}),
        ),
        (pod("a", ready=False, waiting={"reason": "Init"}), None, Replica("a", False, False, trouble={"pod": "Init"})),
        ({"metadata": {"name": "a"}}, None, Replica("a", False, False, trouble={})),
    ],
)
def test_a_replica(made: Json, told: Json | str | None, expected: Replica) -> None:
    found = webhook(deployment(1, 1), [made], {} if told is None else {"a": told}, NOW)

    assert found == Webhook(1, 1, (expected,))


@pytest.mark.parametrize(
    ("given", "wanted", "ready"),
    [(None, None, 0), (deployment(2), 2, 0), (deployment(3, 1), 3, 1), ({"spec": {}, "status": {}}, 1, 0)],
)
def test_how_many(given: Json | None, wanted: int | None, ready: int) -> None:
    assert webhook(given, [], {}, NOW) == Webhook(wanted, ready, ())


def test_replicas_that_do_not_judge_alike() -> None:
    other = {**SAID, "policy": {"digest": "e" * 64, "loadedAt": None}}
    found = webhook(deployment(3, 3), [pod("a"), pod("b"), pod("c")], {"a": SAID, "b": other}, NOW)

    assert found.policies == {"0123456789ab", "e" * 12}


def request(name: str, created: str, *conditions: str) -> Json:
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"username": "system:serviceaccount:batchgate-system:batchgate-agent"},
        "status": {"conditions": [{"type": kind} for kind in conditions]} if conditions else {},
    }


def test_requests_that_wait_are_ours_and_undecided_the_oldest_first() -> None:
    found = pending(
        [
            request("batchgate-kubelet-b", at("09:59:00")),
            request("batchgate-kubelet-a", at("09:00:00")),
            request("batchgate-kubelet-c", at("09:00:00"), "Approved"),
            request("batchgate-kubelet-d", at("09:00:00"), "Denied"),
            request("node-csr-x", at("09:00:00")),
        ],
        NOW,
    )

    agent = "system:serviceaccount:batchgate-system:batchgate-agent"
    assert found == (
        PendingRequest("batchgate-kubelet-a", agent, at("09:00:00"), 3600),
        PendingRequest("batchgate-kubelet-b", agent, at("09:59:00"), 60),
    )
