"""Jobs that name volumes of every kind that a site may map, resources and the node's network, through a real API server.

The API server adds to such fields (a ``hostPort`` to each port of a Pod on its node's network, the mode of a claim in a
template), and the Pod must still be the signed one.
"""

from __future__ import annotations

import pytest

from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack

pytestmark = pytest.mark.timeout(600)
TEMPLATE = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
VOLUMES = [
    {"name": "claimed", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "driven", "csi": {"driver": "lab.csi.example.org", "volumeAttributes": {"dir": "a"}}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}},
    {"name": "files", "image": {"reference": "registry.example.org/model:1"}},
]


def test_a_job_with_volumes_resources_and_the_nodes_network_runs(stack: Stack) -> None:
    name = unique("demanding")
    job = stack.runs.job(name, pod={"volumes": VOLUMES, "hostNetwork": True, "hostIPC": True})
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": 8080}]
    container["securityContext"] = {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}}
    container.setdefault("resources", {}).setdefault("limits", {})["example.com/fpga"] = 1

    applied = stack.user.apply(job)

    assert "Warning: This Job goes to HPC" in applied.err
    assert stack.await_end(name) == ["Complete"]
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 1)
