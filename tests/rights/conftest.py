"""A control plane with an audit log, and the chart with everything that gives rights: its objects, not yet its Pods."""

from __future__ import annotations

import getpass
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane import programs
from router.controlplane.options import APISERVER, RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.programs import NoPrograms, Programs
from router.controlplane.start import control_plane
from router.joining import accounts
from tests.chart.rendering import NEEDED, objects
from tests.rights import audit
from tests.rights.audit import Asked
from tests.rights.pods import NODE as STAND_INS
from tests.rights.pods import Pods

Json = dict[str, Any]

SITE, PULLING, QUEUE, TAKEN = "whole", "pulling", "wide", "taken"
NODE = names.node_name(SITE, QUEUE)
LOCAL = [{"name": one, "nodes": 2, "cpusPerNode": 4, "memory": "8gb", "walltimeMax": 3600} for one in (QUEUE, TAKEN)]
QUICK = ["--lease-seconds=15s", "--cycle-seconds=1s", "--quick-seconds=1s", "--orphan-seconds=5s"]
_ENDPOINTS = "--enable-aggregator-routing=true"
"""Without kube-proxy a Service's address leads nowhere, so the API server takes the endpoints themselves."""


@dataclass(frozen=True)
class Cluster:
    """The control plane, the objects of the chart and of ``site add``, and what it takes to run the chart's Pods."""

    plane: ControlPlane
    chart: list[Json]
    joined: list[Json]
    pods: Pods
    log: Path

    def template(self, kind: str, name: str) -> Json:
        """The Pod template of a workload of the chart."""
        (found,) = (one for one in self.chart if (one["kind"], one["metadata"]["name"]) == (kind, name))
        spec = found["spec"]["jobTemplate"]["spec"] if kind == "CronJob" else found["spec"]
        template: Json = spec["template"]
        return template

    def asked(self) -> list[Asked]:
        """All requests so far."""
        # The last line may be half written.
        return audit.asked(self.log.read_text().rpartition("\n")[0].splitlines())


def policy(root: Path) -> str:
    """Two sites of an embedded queue; one pulls images with Secrets."""
    queue = {"nodes": 2, "cpusPerNode": 4, "memoryPerNode": "8Gi", "walltimeMax": "1h"}
    site = {"system": "local", "queues": [{"name": one, **queue} for one in (QUEUE, TAKEN)], "fsDelay": 2}
    sites = [
        {
            "name": SITE,
            "workDir": str(root / "work"),
            "runtime": "host",
            "resultsDir": str(root / "results"),
            "public": ["queues"],
            **site,
        },
        {"name": PULLING, "workDir": str(root / "work2"), "secrets": "pull", **site},
    ]
    people = [{"users": ["ada"], "site": one["name"], "as": getpass.getuser()} for one in sites]
    rules: list[Json] = [
        {"name": "tried", "when": "job.cpus > 16", "deny": "too large", "mode": "audit"},
        {"name": "pulls", "when": "'pulls' in job.labels", "hpc": [{"site": PULLING, "queue": QUEUE}]},
        {"name": "large", "when": "job.cpus >= 2", "hpc": [{"site": SITE, "queue": QUEUE}]},
        {"name": "small", "cloud": True},
    ]
    return yaml.safe_dump({"sites": sites, "accounts": people, "rules": rules}, sort_keys=False)


def node(name: str, provider: str) -> Json:
    """A Node of this name that somebody has made."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"providerID": provider}}


def policies(root: Path) -> Json:
    """The ConfigMap of the policy."""
    metadata = {"name": names.POLICIES_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"all.yaml": policy(root)}}


def values() -> Json:
    """Everything that has an account of its own or gives an account more."""
    agent = {"local": True, "localQueues": LOCAL, "extraArgs": QUICK}
    return {
        **NEEDED,
        "agents": [{"site": SITE, **agent}, {"site": PULLING, **agent}],
        "approver": {"enabled": True},
        "pullSecrets": {"enabled": True, "namespaces": ["default"]},
        "public": {"enabled": True},
        "policyReports": {"enabled": True},
    }


@pytest.fixture(scope="module")
def cluster(control_plane_programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        programs.find_helm()
    except NoPrograms as error:
        pytest.skip(f"the chart cannot be rendered: {error}")
    directory = tmp_path_factory.mktemp("rights")
    log, rules = directory / "audit.log", directory / "audit.yaml"
    rules.write_text(yaml.safe_dump(audit.POLICY))
    arguments = {APISERVER: (_ENDPOINTS, f"--audit-policy-file={rules}", f"--audit-log-path={log}")}
    options = Options(editors={"default": (RESEARCHERS,)}, arguments=arguments, node_grace_seconds=3600)
    with (
        control_plane(directory / "plane", options) as plane,
        tempfile.TemporaryDirectory(prefix="bg-", ignore_cleanup_errors=True) as root,
    ):
        pods = Pods(plane, Path(root), _address())
        joined = [one.body for one in accounts.objects(SITE, names.SYSTEM_NAMESPACE)]
        found = Cluster(plane, objects(values()), joined, pods, log)
        plane.make_namespaces({names.SYSTEM_NAMESPACE: ()})
        plane.apply(node(STAND_INS, "other://2"))
        # One of ours without the label by which the agent finds its Nodes, and one that is somebody else's.
        plane.apply(node(NODE, f"{names.NODE_PROVIDER}{SITE}/{QUEUE}"), node(names.node_name(SITE, TAKEN), "other://1"))
        plane.apply(*(one for one in found.chart if one["kind"] not in {"Deployment", "Job", "CronJob"}))
        plane.apply(*joined, policies(pods.root))
        plane.kubectl("label", "namespace", "default", f"{names.LABEL_GATE}={names.GATE_ENABLED}")
        with pods.following():
            yield found


def _address() -> str:
    """This machine's address, as the API server takes none of loopback for a Pod's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
