"""DaemonSets that tolerate everything, on a real control plane with two virtual nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from router import names
from router.agent.nodes.daemonsets import NOTE, Act, DaemonSets, act_on, binding, ended, node_meant, running
from router.agent.nodes.keeping import Endpoint, Nodes
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from router.kube.events import Recorder
from router.site.schema import Queue, Site
from tests.kube.wire import await_true

OURS = frozenset({"main.daemons.batchgate", "long.daemons.batchgate"})
NODE = "main.daemons.batchgate"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00Z"
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}


def pod(**changes: Any) -> dict[str, Any]:
    """A Pod as the DaemonSet controller makes it for our node."""
    rule = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    terms = [{"matchFields": [rule]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    made: dict[str, Any] = {
        "metadata": {"namespace": "n", "name": "d-x", "uid": "u", "ownerReferences": [OWNER]},
        "spec": {"affinity": {"nodeAffinity": required}, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    }
    for key, value in changes.items():
        part, _, name = key.partition("_")
        made[part][name] = value
    return made


READY = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready", "PodScheduled")]
UNREADY = [*READY[:2], {"type": "Ready", "status": "False"}]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(), Act.BIND),
        (pod(metadata_deletionTimestamp=STAMP), None),
        (pod(metadata_ownerReferences=[]), None),
        (pod(metadata_ownerReferences=[{**OWNER, "controller": False}]), None),
        (pod(metadata_ownerReferences=[{**OWNER, "kind": "Job"}]), None),
        (pod(spec_affinity={}), None),
        (pod(spec_nodeName="cloud-1"), None),
        (pod(spec_nodeName=NODE), Act.REPORT),
        (pod(spec_nodeName=NODE, spec_affinity=None), Act.REPORT),
        (pod(spec_nodeName=NODE, metadata_ownerReferences=[]), None),
        (pod(spec_nodeName=NODE, status_phase="Running", status_conditions=UNREADY), Act.REPORT),
        (pod(spec_nodeName=NODE, status_phase="Running", status_conditions=READY), None),
        (pod(spec_nodeName=NODE, status_phase="Failed"), None),
        (pod(spec_nodeName=NODE, metadata_deletionTimestamp=STAMP), Act.END),
        (pod(spec_nodeName=NODE, metadata_deletionTimestamp=STAMP, status_phase="Succeeded"), Act.END),
        (pod(spec_nodeName="cloud-1", metadata_deletionTimestamp=STAMP), None),
    ],
)
def test_what_is_done_with_a_pod(found: dict[str, Any], expected: Act | None) -> None:
    assert act_on(found, OURS) is expected


def required(*rules: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchFields": [rule]} for rule in rules]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
        "podAntiAffinity": {},
    }


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (None, None),
        ({}, None),
        (required({"key": "metadata.name", "operator": "In", "values": ["x"]}), "x"),
        (required({"key": "metadata.name", "operator": "NotIn", "values": ["x"]}), None),
        (required({"key": "metadata.name", "operator": "In", "values": ["x", "y"]}), None),
        (required({"key": "metadata.other", "operator": "In", "values": ["x"]}), None),
    ],
)
def test_the_node_that_is_meant(affinity: dict[str, Any] | None, expected: str | None) -> None:
    assert node_meant(pod(spec_affinity=affinity)) == expected


def test_what_is_written() -> None:
    state = {"imageID": "", "image": "i", "name": "c", "restartCount": 0}
    why = {"reason": "NotRun", "message": NOTE}

    assert binding(pod(), NODE) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "d-x", "namespace": "n", "uid": "u"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    }
    assert running(pod(), "10.0.0.1", NOW) == {
        "metadata": {"uid": "u", "annotations": {"batchgate.dev/not-run": NOTE}},
        "status": {
            "phase": "Running",
            "startTime": STAMP,
            "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": STAMP, **why}
                for kind in ("Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [
                {**state, "ready": True, "started": True, "state": {"running": {"startedAt": STAMP}}}
            ],
        },
    }
    over = {"terminated": {"exitCode": 0, "reason": "NotRun", "finishedAt": STAMP}}
    assert ended(pod(), NOW) == {
        "metadata": {"uid": "u"},
        "status": {
            "phase": "Succeeded",
            "containerStatuses": [{**state, "ready": False, "started": False, "state": over}],
        },
    }


# --- on the real control plane ------------------------------------------------------------------------------------


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """The API server, as admin."""
    return connect(str(plane.kubeconfig()))


@pytest.fixture
def answered(plane: ControlPlane, api: Api) -> Iterator[DaemonSets]:
    """Two virtual nodes and whoever answers for DaemonSets on them, with the agent's rights."""
    agent = connect(str(installing.agent(plane)))
    recorder = Recorder(agent, "agent-1")
    queues = tuple(Queue(name=name, nodes=1, cpus_per_node=1) for name in ("main", "long"))
    site = Site(name="daemons", system="local", work_dir="/work", queues=queues)
    nodes = Nodes(agent, site, Endpoint("127.0.0.1", 10250), 40, recorder)
    answering = DaemonSets(agent, OURS, "127.0.0.1", recorder)
    recorder.start()
    nodes.start()
    answering.start()
    await_true(lambda: all(api.find(f"/api/v1/nodes/{name}") for name in OURS), "the nodes")
    yield answering
    assert answering.alive
    answering.stop()
    nodes.stop()
    recorder.stop()
    for name in OURS:
        api.delete(f"/api/v1/nodes/{name}")


def daemon_set(namespace: str, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 600,
            "containers": [{"name": "c", "image": "busybox"}, {"name": "e", "image": "busybox"}],
            **spec,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }


def on_ours(api: Api, namespace: str) -> dict[str, dict[str, Any]]:
    """Pods on our nodes by node, those that are going left out."""
    found = api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        one["spec"].get("nodeName", ""): one
        for one in found
        if one["spec"].get("nodeName") in OURS and "deletionTimestamp" not in one["metadata"]
    }


def test_a_daemon_set_that_tolerates_everything_rolls_out_and_is_replaced(
    plane: ControlPlane, api: Api, answered: DaemonSets, namespace: str
) -> None:
    plane.apply(daemon_set(namespace))
    await_true(lambda: rolled_out(api, namespace, 1), "the first rollout")
    first = on_ours(api, namespace)
    assert set(first) == OURS
    for one in first.values():
        assert one["status"]["phase"] == "Running"
        assert one["metadata"]["annotations"][names.KEY_NOT_RUN] == NOTE
        assert [state["ready"] for state in one["status"]["containerStatuses"]] == [True, True]
        await_true(lambda: events(api, one) != [], "its Event, which is sent beside")  # noqa: B023 - used at once
        told = events(api, one)
        assert [event["reason"] for event in told] == ["NotRun"]
        assert told[0]["message"].startswith(NOTE)
    assert "2/2" in plane.kubectl("get", "pods", "-n", namespace).stdout

    api.patch(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/d", change_of_template())
    await_true(lambda: rolled_out(api, namespace, 2), "the second rollout: old Pods end at once")

    second = on_ours(api, namespace)
    assert set(second) == OURS
    assert not {uid(one) for one in first.values()} & {uid(one) for one in second.values()}

    plane.kubectl("delete", "daemonset", "d", "-n", namespace, "--cascade=foreground", "--wait=false")
    await_true(lambda: api.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == [], "all Pods end")


def change_of_template() -> dict[str, Any]:
    return {"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}}


def uid(found: dict[str, Any]) -> str:
    return str(found["metadata"]["uid"])


def rolled_out(api: Api, namespace: str, generation: int) -> bool:
    """As ``kubectl rollout status`` judges; other nodes of the plane may have the Pod too."""
    status = api.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/d")["status"]
    ready = {name for name, one in on_ours(api, namespace).items() if is_ready(one)}
    return (
        status.get("observedGeneration", 0) >= generation
        and status.get("updatedNumberScheduled", 0) == status["desiredNumberScheduled"] >= len(OURS)
        and status.get("numberAvailable", 0) >= len(OURS)
        and ready == OURS
    )


def is_ready(found: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"].get("conditions") or [])


def events(api: Api, about: dict[str, Any]) -> list[dict[str, Any]]:
    found = api.get(f"/api/v1/namespaces/{about['metadata']['namespace']}/events")["items"]
    return [
        event
        for event in found
        if event["involvedObject"].get("uid") == uid(about) and event["source"].get("component") == "batchgate-agent"
    ]


def test_a_pod_that_becomes_unready_is_reported_again(
    plane: ControlPlane, api: Api, answered: DaemonSets, namespace: str
) -> None:
    """As the node controller does when it misses a node's heartbeats."""
    plane.apply(daemon_set(namespace))
    await_true(lambda: rolled_out(api, namespace, 1), "the rollout")
    one = on_ours(api, namespace)[NODE]
    agent = connect(str(installing.agent(plane)))

    path = f"/api/v1/namespaces/{namespace}/pods/{one['metadata']['name']}/status"
    conditions = [
        {**each, "status": "False"} if each["type"] == "Ready" else each for each in one["status"]["conditions"]
    ]
    agent.patch(path, {"status": {"conditions": conditions}})

    await_true(lambda: is_ready(on_ours(api, namespace)[NODE]), "ready again")


def test_a_daemon_set_with_the_affinity_of_the_docs_stays_off(
    plane: ControlPlane, api: Api, answered: DaemonSets, namespace: str
) -> None:
    rule = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [rule]}}}
    plane.apply(daemon_set(namespace, affinity=affinity))

    def observed() -> bool:
        found = api.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/d")
        return bool(found["status"].get("observedGeneration") == 1)

    await_true(observed, "the controller has looked")
    assert on_ours(api, namespace) == {}
