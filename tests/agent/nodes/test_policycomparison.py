"""Agent and webhook tell their policies by way of a real API server, each with its own rights."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from router import names
from router.agent.nodes.objects import Condition
from router.agent.nodes.policycomparison import PolicyComparison, verdict
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from router.policy.inforce import InForce
from router.webhook.policystate import PolicyPublisher

OURS, THEIRS = "a1" * 32, "b2" * 32
KIND = names.CONDITION_POLICY_DIFFERS
SAME = Condition(KIND, "False", "Same", "agent and webhook have policy a1a1a1a1a1a1 in force")
SILENT = Condition(KIND, "Unknown", "WebhookSilent", "no replica of the webhook says which policy it has in force")
DIFFERS = Condition(
    KIND,
    "True",
    "Differs",
    "the agent has policy a1a1a1a1a1a1 in force, the webhook's replica one has b2b2b2b2b2b2; "
    "roll the same policy out to both (docs/policies.md)",
)


@pytest.mark.parametrize(
    ("told", "lasted", "expected"),
    [
        ({}, 0, SILENT),
        ({"one": InForce(0, OURS)}, 0, SAME),
        ({"one": InForce(0, THEIRS)}, 179, None),
        ({"one": InForce(0, THEIRS)}, 180, DIFFERS),
    ],
)
def test_a_difference_is_shown_once_it_has_lasted(
    told: dict[str, InForce], lasted: float, expected: Condition | None
) -> None:
    assert verdict(OURS, told, lasted, 180) == expected


@pytest.fixture
def state(plane: ControlPlane) -> Iterator[None]:
    """Nothing is published at first, nor after the test."""

    def empty() -> None:
        plane.kubectl(
            "patch", "configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICY_STATE_CONFIG_MAP,
            "--type=json", "-p", json.dumps([{"op": "add", "path": "/data", "value": {}}]),
        )  # fmt: skip

    empty()
    yield
    empty()


def test_what_replicas_publish_is_compared(plane: ControlPlane, state: None) -> None:
    shown: list[tuple[str, Condition | None]] = []
    agent = connect(str(installing.agent(plane)))
    comparison = PolicyComparison(
        agent, names.SYSTEM_NAMESPACE, lambda: OURS, lambda own, seen: shown.append((own, seen)), patience=0
    )
    present = {"policy": (OURS, "")}
    api = connect(str(installing.webhook(plane)))
    log = logging.getLogger("test")
    replica = PolicyPublisher(api, names.SYSTEM_NAMESPACE, "one", lambda: present["policy"], log)

    comparison.look()
    assert replica.look()
    assert not replica.look()
    comparison.look()
    present["policy"] = (THEIRS, "")
    assert replica.look()
    comparison.look()

    assert shown == [(OURS, None), (OURS, SILENT), (OURS, None), (OURS, SAME), (OURS, None), (OURS, DIFFERS)]


def test_a_replica_removes_the_documents_of_those_that_ended_long_ago(plane: ControlPlane, state: None) -> None:
    old = {"gone.json": '{"time": "2026-01-01T00:00:00Z", "digest": "d", "error": ""}'}
    path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{names.POLICY_STATE_CONFIG_MAP}"
    admin = connect(str(plane.kubeconfig()))
    admin.patch(path, {"data": old})
    api = connect(str(installing.webhook(plane)))

    PolicyPublisher(api, names.SYSTEM_NAMESPACE, "one", lambda: (OURS, ""), logging.getLogger("test")).look()

    assert list(admin.get(path)["data"]) == ["one.json"]
