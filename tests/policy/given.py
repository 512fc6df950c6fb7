"""Policies and Jobs for tests: the least that says what a test is about."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, settings

from router import policy
from router.errors import PolicyError
from router.policy import Policy
from router.policy.decision import Requester
from router.workload import workload_of
from router.workload.model import Workload

UNHURRIED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

SITES = """
sites:
  - name: pbs
    system: openpbs
    workDir: /scratch/{user}
    queues:
      - {name: small, nodes: 1, cpusPerNode: 4, memoryPerNode: 8Gi, walltimeMax: 1h}
      - {name: big, nodes: 4, cpusPerNode: 8, memoryPerNode: 32Gi, walltimeMax: 24h}
  - name: gpus
    system: slurm
    workDir: /scratch/{user}
    queues:
      - {name: gpu, nodes: 2, cpusPerNode: 16, gpusPerNode: 4, gpuVendor: nvidia}
"""
ACCOUNTS = "accounts: [{users: [ada], as: ada}, {groups: [physicists], as: phys, account: p1, project: q1}]\n"
REST = "  - {name: rest, cloud: true}\n"
ADA = Requester("ada", ("staff",), "lab", None)


def loaded(
    rules: str, *, accounts: str = ACCOUNTS, sites: str = SITES, more: Mapping[str, str] | None = None
) -> Policy:
    """A policy of these rules (YAML list items, two spaces in), with a catch-all behind them, and of further files."""
    return policy.load({"a.yaml": sites, "b.yaml": accounts, "c.yaml": f"rules:\n{rules}{REST}", **(more or {})})


def problems_of(files: dict[str, str]) -> list[str]:
    """Every problem of these files, without excerpts."""
    try:
        policy.load(files)
    except PolicyError as error:
        return [str(problem).partition("\n")[0] for problem in error.problems]
    return []


def job(
    requests: dict[str, str] | None = None, *, annotations: dict[str, str] | None = None, **spec: object
) -> dict[str, object]:
    """A Job of one container."""
    container = {
        "name": "main",
        "image": "registry.example.org/tool:1",
        "command": ["tool"],
        "resources": {"requests": requests or {}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "labels": {"team": "x"}, "annotations": annotations or {}},
        "spec": {**spec, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def workload(
    requests: dict[str, str] | None = None, *, annotations: dict[str, str] | None = None, **spec: object
) -> Workload:
    """What such a Job asks for."""
    return workload_of(job(requests, annotations=annotations, **spec), namespace="lab")
