"""Whether quotas leave room for a Job's Pods, as the API server counts them."""

from __future__ import annotations

from typing import Any

import pytest

from router.workload import workload_of
from router.workload.cluster import Cluster
from router.workload.quotas import Quota, Scope, shortage

PLENTY = {"cpu": "0"}


def pod(cpu: str | None = "4", memory: str | None = "8Gi", **spec: Any) -> dict[str, Any]:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    container = {
        "name": "main",
        "image": "x",
        "command": ["true"],
        **({"resources": {"requests": asked}} if asked else {}),
    }
    return {"restartPolicy": "Never", "containers": [container], **spec}


def said(quota: Quota, spec: dict[str, Any]) -> str:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    workload = workload_of(job, namespace="physics", cluster=Cluster(), gpu_resources={}, root="")
    return shortage([quota], workload, spec)


@pytest.mark.parametrize(
    ("hard", "used", "expected"),
    [
        ({}, {}, ""),
        ({"requests.cpu": "4"}, {}, ""),
        ({"cpu": "4", "pods": "1"}, {"cpu": "0", "pods": "0"}, ""),
        ({"cpu": "3900m"}, {}, "cpu: each Pod takes 4 of 3900m in all"),
        ({"requests.cpu": "6"}, {"requests.cpu": "3"}, "requests.cpu: each Pod takes 4, 3 of 6 is left"),
        ({"memory": "16Gi"}, {"memory": "20Gi"}, "memory: each Pod takes 8Gi, 0 of 16Gi is left"),
        ({"pods": "2"}, {"pods": "2"}, "pods: each Pod takes 1, 0 of 2 is left"),
        ({"count/pods": "0"}, {}, "count/pods: each Pod takes 1 of 0 in all"),
        ({"requests.ephemeral-storage": "1Gi"}, {}, "requests.ephemeral-storage: each Pod must request some"),
        ({"requests.cpu": "9999999999999999999999"}, {}, ""),
        ({"limits.cpu": "1", "count/jobs.batch": "0", "configmaps": "0"}, {}, ""),
    ],
)
def test_what_is_left(hard: dict[str, str], used: dict[str, str], expected: str) -> None:
    assert said(Quota("q", hard, used), pod()) == (f"ResourceQuota q: {expected}" if expected else "")


@pytest.mark.parametrize(
    ("scope", "spec", "counts"),
    [
        (Scope("Terminating"), pod(), False),
        (Scope("Terminating"), pod(activeDeadlineSeconds=60), True),
        (Scope("NotTerminating"), pod(), True),
        (Scope("NotTerminating"), pod(activeDeadlineSeconds=60), False),
        (Scope("NotBestEffort"), pod(), True),
        (Scope("NotBestEffort"), pod(None, None), False),
        (Scope("BestEffort"), pod(), False),
        (Scope("BestEffort"), pod(None, None), True),
        (Scope("PriorityClass", "NotIn", ("hpc",)), pod(), True),
        (Scope("PriorityClass", "NotIn", ("hpc",)), pod(priorityClassName="hpc"), False),
        (Scope("PriorityClass", "In", ("hpc",)), pod(), False),
        (Scope("PriorityClass", "In", ("hpc",)), pod(priorityClassName="hpc"), True),
        (Scope("PriorityClass", "Exists"), pod(), False),
        (Scope("PriorityClass", "DoesNotExist"), pod(), True),
        (Scope("CrossNamespacePodAffinity"), pod(), False),
        (Scope("VolumeAttributesClass", "In", ("gold",)), pod(), False),
    ],
)
def test_which_pods_a_quota_counts(scope: Scope, spec: dict[str, Any], counts: bool) -> None:
    assert bool(said(Quota("q", {"pods": "0"}, {}, (scope,)), spec)) == counts


def test_all_scopes_must_match() -> None:
    both = (Scope("NotTerminating"), Scope("PriorityClass", "Exists"))

    assert said(Quota("q", {"pods": "0"}, {}, both), pod()) == ""
    assert said(Quota("q", {"pods": "0"}, {}, both), pod(priorityClassName="x")) != ""
