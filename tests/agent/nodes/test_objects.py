"""What a virtual node's Node says, as whole values."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from router import __version__
from router.agent.nodes.objects import (
    Condition,
    QueueFigures,
    VirtualNode,
    allocatable,
    capacity,
    declared,
    is_ours,
    labels,
    lease_object,
    metadata_patch,
    node_object,
    queue_condition,
    reported,
    status_patch,
)
from router.hpc import QueueReport
from router.site.schema import Queue
from router.workload.model import GpuVendor

GI = 1024**3
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00Z"
FIGURES = QueueFigures(nodes=3, cpus_per_node=8, memory_per_node=32 * GI, gpus_per_node=2, walltime_max=36 * 3600)
READY = Condition("Ready", "True", "AgentReady", "all is well")
NODE = VirtualNode("hpc", "batch", FIGURES, "10.0.0.1", 10250, "v1.36.3", (READY,))
LABELS = {
    "type": "virtual-kubelet",
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/hostname": "batch.hpc.batchgate",
    "node.kubernetes.io/exclude-from-external-load-balancers": "true",
    "batchgate.dev/site": "hpc",
    "batchgate.dev/queue": "batch",
    "batchgate.dev/nodes": "3",
    "batchgate.dev/ncpus-per-node": "8",
    "batchgate.dev/mem-per-node": "32Gi",
    "batchgate.dev/walltime-max": "1d12h",
}
TAINT = {"key": "batchgate.dev/queue", "value": "batch", "effect": "NoSchedule"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def test_a_node_as_it_is_created() -> None:
    assert node_object(NODE) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "batch.hpc.batchgate", "labels": LABELS},
        "spec": {"providerID": "batchgate://hpc/batch", "taints": [TAINT]},
    }


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (
            Queue(name="q", nodes=3, cpus_per_node=8, memory_per_node=GI, walltime_max=3600),
            QueueFigures(nodes=3, cpus_per_node=8, memory_per_node=GI, walltime_max=3600),
        ),
        (
            Queue(name="q", nodes=1, cpus_per_node=1, gpus_per_node=4, gpu_vendor=GpuVendor.AMD),
            QueueFigures(nodes=1, cpus_per_node=1, gpus_per_node=4, gpu_resource="amd.com/gpu"),
        ),
        (
            Queue(name="q", nodes=1, cpus_per_node=1, gpus_per_node=4),
            QueueFigures(nodes=1, cpus_per_node=1, gpus_per_node=4, gpu_resource="nvidia.com/gpu"),
        ),
    ],
)
def test_figures_of_a_queue_that_was_not_asked_are_the_policys(queue: Queue, expected: QueueFigures) -> None:
    assert declared(queue) == expected


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (FIGURES, {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6"}),
        (QueueFigures(nodes=2, cpus_per_node=4), {"cpu": "8"}),
        (QueueFigures(nodes=2, memory_per_node=1_500_000_001), {"memory": "3000000002"}),
        (QueueFigures(nodes=2, gpus_per_node=1, gpu_resource="amd.com/gpu"), {"amd.com/gpu": "2"}),
        (QueueFigures(nodes=0, cpus_per_node=4), {"cpu": "0"}),
        (QueueFigures(cpus_per_node=4), {}),
    ],
)
def test_capacity_is_what_the_queue_has_and_no_pods_can_be_scheduled(
    figures: QueueFigures, expected: dict[str, str]
) -> None:
    assert capacity(figures) == expected
    assert allocatable(figures) == expected | {"pods": "0"}


def test_labels_of_what_is_not_known_are_left_out() -> None:
    node = VirtualNode("hpc", "batch", QueueFigures(), "10.0.0.1", 1, "v1")

    assert set(LABELS) - set(labels(node)) == {
        "batchgate.dev/nodes",
        "batchgate.dev/ncpus-per-node",
        "batchgate.dev/mem-per-node",
        "batchgate.dev/walltime-max",
    }


def test_a_long_name_is_a_label_all_the_same() -> None:
    long, other = (VirtualNode("site", "q" * 56 + last, FIGURES, "10.0.0.1", 1, "v1") for last in ("a", "b"))
    names = [labels(node)["kubernetes.io/hostname"] for node in (long, other)]

    assert [len(name) for name in names] == [63, 63]
    assert names[0] != names[1]


def stored(**changes: Any) -> dict[str, Any]:
    """The Node as the API server has it, with what others wrote."""
    found = node_object(NODE)
    found["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    found["metadata"]["labels"] = {**LABELS, "theirs": "kept"}
    found["spec"]["taints"] = [NOT_READY, TAINT]
    found["status"] = {
        "capacity": {"cpu": "24", "memory": "100663296Ki", "nvidia.com/gpu": "6", "theirs.io/x": "1"},
        "allocatable": {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6", "pods": "0"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": status_patch({}, NODE, NOW)["status"]["nodeInfo"],  # type: ignore[index]
        "conditions": [condition(READY), {"type": "TheirCondition", "status": "True"}],
    }
    for path, value in changes.items():
        *above, last = path.split("__")
        place = found
        for step in above:
            place = place[step]
        place[last] = value
    return found


def condition(one: Condition, **changes: str) -> dict[str, str]:
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": one.message,
        "lastHeartbeatTime": "2026-03-01T11:57:00Z",
        "lastTransitionTime": "2026-03-01T09:00:00Z",
        **changes,
    }


def without_transition(one: Condition) -> dict[str, str]:
    return {key: value for key, value in condition(one).items() if key != "lastTransitionTime"}


def test_a_node_that_says_what_it_should_is_left_alone() -> None:
    found = stored()
    before = deepcopy(found)

    assert metadata_patch(found, NODE) is None
    assert status_patch(found, NODE, NOW) is None
    assert found == before


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            stored(metadata__labels={"theirs": "kept"}),
            {"metadata": {"labels": LABELS}},
        ),
        (stored(metadata__labels={**LABELS, "type": "other"}), {"metadata": {"labels": {"type": "virtual-kubelet"}}}),
        (
            stored(spec__taints=[NOT_READY]),
            {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [NOT_READY, TAINT]}},
        ),
        (
            stored(spec__taints=[{**TAINT, "effect": "NoExecute", "timeAdded": STAMP}, NOT_READY]),
            {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [NOT_READY, TAINT]}},
        ),
        (stored(spec={"providerID": "x"}), {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [TAINT]}}),
    ],
)
def test_labels_and_taint_are_put_back_and_those_of_others_kept(
    found: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert metadata_patch(found, NODE) == expected


def test_a_label_of_what_is_not_known_any_more_goes() -> None:
    node = VirtualNode("hpc", "batch", QueueFigures(nodes=3, cpus_per_node=8), "10.0.0.1", 10250, "v1.36.3", (READY,))

    assert metadata_patch(stored(), node) == {
        "metadata": {"labels": {"batchgate.dev/mem-per-node": None, "batchgate.dev/walltime-max": None}}
    }
    assert status_patch(stored(), node, NOW) == {
        "status": {
            "capacity": {"cpu": "24", "memory": None, "nvidia.com/gpu": None},
            "allocatable": {"cpu": "24", "pods": "0", "memory": None, "nvidia.com/gpu": None},
        }
    }


def test_the_status_of_a_new_node() -> None:
    patch = status_patch(node_object(NODE), NODE, NOW)

    assert patch == {
        "status": {
            "capacity": {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6"},
            "allocatable": {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6", "pods": "0"},
            "addresses": [{"$patch": "replace"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": f"v1.36.3-batchgate.{__version__}",
                "containerRuntimeVersion": f"batchgate://{__version__}",
                "osImage": "Queue batch of site hpc",
                "bootID": "",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "systemUUID": "",
            },
            "conditions": [condition(READY, lastHeartbeatTime=STAMP, lastTransitionTime=STAMP)],
        }
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {
                "status__addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "Hostname", "address": "x"},
                ]
            },
            {"addresses": [{"$patch": "replace"}, {"type": "InternalIP", "address": "10.0.0.1"}]},
        ),
        ({"status__daemonEndpoints": {}}, {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}),
        (
            {"status__allocatable": {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6", "pods": "110"}},
            {"allocatable": {"cpu": "24", "memory": "96Gi", "nvidia.com/gpu": "6", "pods": "0"}},
        ),
        (
            {"status__conditions": [condition(READY, status="Unknown", reason="NodeStatusUnknown")]},
            {"conditions": [condition(READY, lastHeartbeatTime=STAMP, lastTransitionTime=STAMP)]},
        ),
        (
            {"status__conditions": [condition(READY, message="other words")]},
            {"conditions": [{**without_transition(READY), "lastHeartbeatTime": STAMP}]},
        ),
    ],
)
def test_what_differs_is_put_right(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert status_patch(stored(**changes), NODE, NOW) == {"status": expected}


@pytest.mark.parametrize("minutes", [-1, 5, 60])
def test_conditions_that_stay_are_written_every_five_minutes_or_when_a_clock_was_set(minutes: int) -> None:
    last = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = status_patch(stored(status__conditions=[condition(READY, lastHeartbeatTime=last)]), NODE, NOW)

    assert patch is not None
    assert [(one["type"], one["lastHeartbeatTime"]) for one in patch["status"]["conditions"]] == [("Ready", STAMP)]
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (stored(), True),
        (stored(spec__providerID="batchgate://hpc/other"), False),
        (stored(spec__providerID=""), False),
        (stored(spec={}), False),
        ({"metadata": {}}, False),
    ],
)
def test_a_node_is_ours_by_its_provider_id_alone(found: dict[str, Any], expected: bool) -> None:
    assert is_ours(found, NODE) is expected


def test_the_lease_goes_with_its_node() -> None:
    assert lease_object(NODE, "uid-1", 40, "2026-03-01T12:00:00.000000Z") == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "batch.hpc.batchgate",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "batch.hpc.batchgate", "uid": "uid-1"}],
        },
        "spec": {
            "holderIdentity": "batch.hpc.batchgate",
            "leaseDurationSeconds": 40,
            "renewTime": "2026-03-01T12:00:00.000000Z",
        },
    }


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (QueueReport("q", enabled=True, started=True), FIGURES),
        (
            QueueReport(
                "q",
                enabled=True,
                started=True,
                nodes=2,
                cores_per_node=4,
                memory_per_node=GI,
                gpus_per_node=1,
                walltime_max=60,
            ),
            QueueFigures(nodes=2, cpus_per_node=4, memory_per_node=GI, gpus_per_node=1, walltime_max=60),
        ),
        (QueueReport("q", enabled=True, started=True, nodes=9, nodes_max=4), replace(FIGURES, nodes=4)),
        (
            QueueReport("q", enabled=True, started=True, nodes=0, gpus_per_node=0),
            replace(FIGURES, nodes=0, gpus_per_node=None),
        ),
    ],
)
def test_what_the_batch_system_says_holds_before_what_is_declared(state: QueueReport, expected: QueueFigures) -> None:
    assert reported(FIGURES, state) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (QueueReport("q", enabled=True, started=True), ("False", "Open", "it takes and starts jobs")),
        (QueueReport("q", enabled=False, started=True, reason="drained"), ("True", "Disabled", "drained")),
        (QueueReport("q", enabled=True, started=False), ("True", "Stopped", "it starts no jobs")),
        (None, ("True", "NotThere", "the batch system has no queue q, or does not show it")),
    ],
)
def test_a_node_says_whether_its_queue_takes_jobs(state: QueueReport | None, expected: tuple[str, str, str]) -> None:
    assert queue_condition("q", state) == Condition("QueueClosed", *expected)
