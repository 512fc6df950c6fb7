"""Node objects on a real API server, with the controllers that judge nodes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.agent.nodes import keeping as module
from router.agent.nodes import objects as nodeobject
from router.agent.nodes.keeping import Endpoint, Nodes, QueueFigures
from router.controlplane import installing
from router.controlplane.options import Options
from router.controlplane.plane import ControlPlane
from router.controlplane.programs import Programs
from router.controlplane.start import control_plane
from router.kube.client import Api, connect
from router.kube.events import Recorder
from router.site.schema import Queue, Site
from tests.kube.wire import Wire, await_true, wire_to

NODE = "main.here.batchgate"
PATH = f"/api/v1/nodes/{NODE}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
MADE_AGAIN = 30.0
ENDPOINT = Endpoint("127.0.0.1", 10250)


def site(*queues: str) -> Site:
    declared = tuple(Queue(name=name, nodes=2, cpus_per_node=4) for name in queues)
    return Site(name="here", system="local", work_dir="/work", queues=declared)


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    """The API server, as admin; without Nodes of ours before and after."""
    client = connect(str(plane.kubeconfig()))
    remove_nodes(client)
    yield client
    remove_nodes(client)


def remove_nodes(api: Api) -> None:
    for found in api.get("/api/v1/nodes")["items"]:
        if found["metadata"]["name"].endswith(".here.batchgate"):
            api.delete(f"/api/v1/nodes/{found['metadata']['name']}")


@pytest.fixture
def agent(plane: ControlPlane) -> Api:
    """The API server, as the agent, with no more rights than it has."""
    return connect(str(installing.agent(plane)))


Start = Callable[..., Nodes]


@pytest.fixture
def start(api: Api, agent: Api) -> Iterator[Start]:
    """Start to keep Nodes; ended with the test, and before the Nodes are removed."""
    running: list[tuple[Nodes, Recorder]] = []

    def begin(*queues: str, through: Api = agent, endpoint: Endpoint = ENDPOINT) -> Nodes:
        recorder = Recorder(through, "agent-1")
        recorder.start()
        kept = Nodes(through, site(*(queues or ("main",))), endpoint, 4, recorder)
        kept.start()
        running.append((kept, recorder))
        return kept

    yield begin
    for kept, recorder in running:
        kept.stop()
        recorder.stop()
        assert not kept.alive


def is_ready(api: Api, path: str = PATH) -> bool:
    return conditions(api, path).get("Ready") == "True"


def conditions(api: Api, path: str = PATH) -> dict[str, str]:
    found = api.find(path) or {}
    return {one["type"]: one["status"] for one in (found.get("status") or {}).get("conditions") or []}


def taints(api: Api) -> list[tuple[str, str]]:
    return [(one["key"], one["effect"]) for one in (api.get(PATH)["spec"].get("taints") or [])]


def test_a_node_is_made_becomes_ready_and_takes_nothing_from_the_scheduler(
    plane: ControlPlane, api: Api, start: Start, namespace: str
) -> None:
    kept = start("main", "Gpu_Long")
    await_true(lambda: is_ready(api), "ready")
    await_true(lambda: taints(api) == [(names.KEY_QUEUE, "NoSchedule")], "the taint of a node that is not ready goes")

    found = api.get(PATH)
    assert found["spec"]["providerID"] == "batchgate://here/main"
    assert found["status"]["capacity"]["cpu"] == "8"
    assert found["status"]["allocatable"]["pods"] == "0"
    assert found["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    assert found["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
    await_true(lambda: is_ready(api, f"/api/v1/nodes/{names.node_name('here', 'Gpu_Long')}"), "the other node too")
    await_true(lambda: api.find(LEASE), "its lease")
    lease = api.get(LEASE)
    assert lease["spec"]["holderIdentity"] == NODE
    assert lease["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    assert (kept.problems, kept.alive) == ({}, True)
    assert "Ready" in plane.kubectl("get", "node", NODE).stdout

    stray = {
        "metadata": {"name": "stray"},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "busybox"}]},
    }
    api.create(f"/api/v1/namespaces/{namespace}/pods", stray)
    await_true(lambda: "Too many pods" in refusals(api, namespace), "the scheduler says why it is not placed")


def refusals(api: Api, namespace: str) -> str:
    found = api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return " ".join(event["message"] for event in found if event["reason"] == "FailedScheduling")


def test_a_node_whose_agent_sees_no_pods_is_not_ready(api: Api, start: Start) -> None:
    kept = start()
    await_true(lambda: is_ready(api), "ready")

    kept.ready("pods is forbidden")

    await_true(lambda: conditions(api)["Ready"] == "False", "not ready")
    kept.ready("")
    await_true(lambda: is_ready(api), "ready again")


def test_the_lease_is_renewed(api: Api, start: Start) -> None:
    start()
    await_true(lambda: api.find(LEASE), "a lease")
    first = api.get(LEASE)["spec"]["renewTime"]

    await_true(lambda: api.get(LEASE)["spec"]["renewTime"] > first, "a renewal")


def test_a_node_that_is_deleted_is_made_again_at_once_with_all_that_was_told(api: Api, start: Start) -> None:
    kept = start()
    kept.condition(None, names.CONDITION_HPC_UNAVAILABLE, "True", "NoAnswer", "qstat does not answer")
    kept.figures("main", QueueFigures(nodes=5, cpus_per_node=16))
    await_true(lambda: conditions(api).get(names.CONDITION_HPC_UNAVAILABLE) == "True", "the condition")
    first = api.get(PATH)["metadata"]["uid"]

    began = time.monotonic()
    api.delete(PATH)
    await_true(lambda: (found := api.find(PATH)) and found["metadata"]["uid"] != first, "made again")
    took = time.monotonic() - began
    await_true(lambda: is_ready(api), "ready again")

    assert took < MADE_AGAIN
    assert conditions(api)[names.CONDITION_HPC_UNAVAILABLE] == "True"
    assert api.get(PATH)["status"]["capacity"]["cpu"] == "80"
    uid = api.get(PATH)["metadata"]["uid"]
    # The old one goes with the old node, and for a moment there is none.
    await_true(
        lambda: (found := api.find(LEASE)) and found["metadata"]["ownerReferences"][0]["uid"] == uid,
        "its lease belongs to it",
    )
    await_true(lambda: names.REASON_NODE_DELETED in reasons(api), "an Event says so")


def reasons(api: Api) -> set[str]:
    return {
        event["reason"]
        for event in api.get("/api/v1/namespaces/default/events")["items"]
        if event["involvedObject"].get("name", "").endswith(".here.batchgate")
    }


def test_what_others_wrote_stays_and_what_is_ours_is_put_back(api: Api, agent: Api, start: Start) -> None:
    start()
    await_true(lambda: is_ready(api), "ready")
    theirs = {"key": "maintenance", "value": "tonight", "effect": "NoExecute"}

    api.patch(PATH, {"metadata": {"labels": {"theirs": "kept"}}, "spec": {"unschedulable": True}})
    # The guard lets nobody else take our labels and taint away.
    labels = {key: None for key in api.get(PATH)["metadata"]["labels"] if key.startswith(names.PREFIX)}
    agent.patch(PATH, {"metadata": {"labels": labels}, "spec": {"taints": [theirs]}})

    wanted = {(names.TAINT_QUEUE, "NoSchedule"), ("maintenance", "NoExecute")}
    await_true(lambda: wanted <= set(taints(api)), "our taint is back")
    await_true(lambda: api.get(PATH)["metadata"]["labels"].get(names.KEY_SITE) == "here", "our labels are back")

    found = api.get(PATH)
    assert found["metadata"]["labels"]["theirs"] == "kept"
    assert found["spec"]["unschedulable"] is True
    api.patch(f"{PATH}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    await_true(lambda: is_ready(api), "ready again")


def test_a_node_that_somebody_else_made_is_left_alone_and_told(api: Api, agent: Api, start: Start) -> None:
    await_true(lambda: api.find(LEASE) is None, "the Lease of the Node before is collected")
    theirs = {"metadata": {"name": NODE, "labels": {"theirs": "kept"}}, "spec": {"providerID": "aws://i-1"}}
    before = agent.create("/api/v1/nodes", theirs)  # the guard lets nobody else use the name

    kept = start("main", "other")
    await_true(lambda: NODE in kept.problems, "the problem")
    await_true(lambda: names.REASON_NODE_NOT_OURS in reasons(api), "an Event")
    await_true(lambda: is_ready(api, "/api/v1/nodes/other.here.batchgate"), "the other node is not held up")

    assert "its providerID is aws://i-1, not batchgate://here/main" in kept.problems[NODE]
    assert list(kept.problems) == [NODE]
    found = api.get(PATH)
    assert found["metadata"]["uid"] == before["metadata"]["uid"]
    assert found["metadata"]["labels"]["theirs"] == "kept"
    assert names.KEY_SITE not in found["metadata"]["labels"]
    assert api.find(LEASE) is None

    api.delete(PATH)
    await_true(lambda: is_ready(api), "ours, once the name is free")
    await_true(lambda: kept.problems == {}, "no problem any more")


def test_another_agent_goes_on_with_the_same_node(api: Api, start: Start) -> None:
    first = start()
    await_true(lambda: is_ready(api), "ready")
    uid = api.get(PATH)["metadata"]["uid"]
    first.stop()
    stands = api.get(PATH)
    assert stands["metadata"]["uid"] == uid

    start(endpoint=Endpoint("127.0.0.1", 10250, {"main": 10260}))

    await_true(lambda: api.get(PATH)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10260, "the new port")
    assert api.get(PATH)["metadata"]["uid"] == uid


def test_the_node_of_a_queue_that_is_gone_is_told_and_never_deleted(
    api: Api, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    old = "/api/v1/nodes/old.here.batchgate"
    before = start("main", "old")
    await_true(lambda: api.find(old), "the old node")
    before.stop()

    start("main")
    await_true(lambda: names.REASON_NODE_LEFT_OVER in reasons(api), "an Event")

    assert api.find(old) is not None
    assert "site here has no such queue any more" in caplog.text


def test_a_queue_that_the_site_does_not_have_is_a_mistake(start: Start) -> None:
    kept = start()

    with pytest.raises(ValueError, match="site here has no queue none"):
        kept.figures("none", QueueFigures())


def test_without_an_api_server_the_nodes_come_when_it_does(
    plane: ControlPlane, api: Api, start: Start, tmp_path: Path
) -> None:
    with wire_to(installing.agent(plane), tmp_path) as (wire, kubeconfig):
        wire.refuses = True
        kept = start(through=connect(kubeconfig))
        await_true(lambda: wire.connections >= 2, "it tries")
        wire.mend()
        await_true(lambda: is_ready(api), "ready")
        await_true(lambda: kept.problems == {}, "no problem any more")
        kept.stop()


@pytest.mark.timeout(900)
def test_an_agent_that_was_away_makes_its_node_ready_again_at_once(
    control_plane_programs: Programs, tmp_path: Path
) -> None:
    """The node controller says Unknown after the grace period, and taints; nothing else has to happen."""
    options = Options(users=(), node_grace_seconds=4)
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane(tmp_path / "plane", options))
        installing.install(plane)
        wire, config = stack.enter_context(wire_to(installing.agent(plane), tmp_path))
        api = connect(str(plane.kubeconfig()))
        through = connect(config)
        recorder = Recorder(through, "agent-1")
        kept = Nodes(through, site("main"), Endpoint("127.0.0.1", 10250), 4, recorder)
        kept.start()
        try:
            await_true(lambda: is_ready(api), "ready")
            away(wire)
            await_true(lambda: conditions(api)["Ready"] == "Unknown", "the controller misses the heartbeats")
            wire.mend()
            await_true(lambda: is_ready(api), "ready again")
            await_true(lambda: taints(api) == [(names.KEY_QUEUE, "NoSchedule")], "the controller's taints go")
        finally:
            kept.stop()


def away(wire: Wire) -> None:
    wire.refuses = True
    wire.cut()


def test_what_is_undone_again_and_again_is_not_fought_over(
    api: Api, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's controller that takes our label off: both write, at a bearable rate."""
    start()
    await_true(lambda: is_ready(api), "ready")
    patched: list[float] = []
    real = nodeobject.metadata_patch

    def counted(*arguments: Any) -> Any:
        change = real(*arguments)
        if change is not None:
            patched.append(time.monotonic())
        return change

    monkeypatch.setattr(module, "metadata_patch", counted)
    until = time.monotonic() + 6
    while time.monotonic() < until:
        if api.get(PATH)["metadata"]["labels"].get("type"):
            api.patch(PATH, {"metadata": {"labels": {"type": None}}})

    await_true(lambda: api.get(PATH)["metadata"]["labels"].get("type"), "ours in the end")
    assert 1 <= len(patched) < 15
