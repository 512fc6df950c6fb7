"""Pods on a site's Nodes that nobody routed there, on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from router import names
from router.agent.nodes.keeping import Endpoint, Nodes
from router.agent.pods.watching import let_go
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from router.kube.events import Recorder
from router.site.schema import Queue, Site
from tests.kube.wire import await_true

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
NODE = "main.strangers.batchgate"


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """The API server, as admin."""
    return connect(str(plane.kubeconfig()))


@pytest.fixture
def agent(plane: ControlPlane, api: Api) -> Iterator[Api]:
    """The API server with the agent's rights, and a site's one virtual node."""
    own = connect(str(installing.agent(plane)))
    recorder = Recorder(own, "agent-1")
    queues = (Queue(name="main", nodes=1, cpus_per_node=1),)
    site = Site(name="strangers", system="local", work_dir="/work", queues=queues)
    nodes = Nodes(own, site, Endpoint("127.0.0.1", 10250), 40, recorder)
    recorder.start()
    nodes.start()
    await_true(lambda: api.find(f"/api/v1/nodes/{NODE}") is not None, "the node")
    yield own
    nodes.stop()
    recorder.stop()
    api.delete(f"/api/v1/nodes/{NODE}")


def _pod(namespace: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": NODE,
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "busybox"}],
        },
    }


def _there(api: Api, namespace: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]}


def test_pods_that_nobody_routed_go_when_they_are_deleted(
    plane: ControlPlane, api: Api, agent: Api, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    labels: dict[str, dict[str, str]] = {
        "bare": {},
        "other-site": {names.KEY_SITE: "elsewhere", names.KEY_QUEUE: "main"},
        "other-queue": {names.KEY_SITE: "strangers", names.KEY_QUEUE: "long"},
        "only-queue": {names.KEY_QUEUE: "main"},
        "routed": {names.KEY_SITE: "strangers", names.KEY_QUEUE: "main"},
        "kept": {},
    }
    # Nobody else may make such Pods.
    made = yaml.safe_dump_all([_pod(namespace, name, own) for name, own in labels.items()])
    plane.kubectl("create", f"--as={JOB_CONTROLLER}", "-f", "-", stdin=made)
    for name in labels.keys() - {"kept"}:
        api.delete(f"{pods}/{name}")
    assert _there(api, namespace) == set(labels)

    ended = let_go(agent, "strangers", ["main"])

    assert ended == 4
    assert _there(api, namespace) == {"routed", "kept"}
    assert let_go(agent, "strangers", ["main"]) == 0
    api.delete(f"{pods}/routed", grace=0)
    api.delete(f"{pods}/kept", grace=0)
