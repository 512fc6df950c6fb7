"""What the webhook knows of a real cluster, and what it says while that cannot be brought up to date."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from router.policy.decision import NO_QUEUE_STATES, QueueState
from router.webhook.watched import Watched, WatchedCluster, WatchedQueues
from router.workload.claims import Claim
from router.workload.cluster import LimitDefaults
from tests.gates import review_of
from tests.kube.wire import await_true, wire_to
from tests.webhook.servers import ROOT, Server, make_pki, serving

LOG = logging.getLogger("test")
RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """The API server, as the webhook's own service account: with the permissions that ``manifests/base`` gives."""
    return connect(str(installing.webhook(plane)))


@contextlib.contextmanager
def watching(*sources: Watched) -> Iterator[None]:
    """The sources' watches run, and they were all seen once."""
    for source in sources:
        source.start()
    try:
        watches = [watch for source in sources for watch in source.watches]
        await_true(lambda: all(watch.synced.is_set() or watch.problem for watch in watches), "synced")
        yield
    finally:
        for source in sources:
            for watch in source.watches:
                watch.stop()
        for source in sources:
            for watch in source.watches:
                watch.await_end(30)


def problem(source: Watched) -> str:
    source.check()
    return source.error


def limit_range(name: str, **requests: str) -> dict[str, Any]:
    limits = [{"type": "Container", "defaultRequest": requests, "default": {"cpu": "8", "memory": "8Gi"}}]
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": limits}}


def put(plane: ControlPlane, namespace: str, document: dict[str, Any]) -> None:
    plane.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(document))


def test_nothing_is_known_before_the_cluster_was_seen(api: Api) -> None:
    assert not WatchedCluster(api, LOG).synced


def test_labels_of_namespaces_follow(plane: ControlPlane, namespace: str, api: Api) -> None:
    cluster = WatchedCluster(api, LOG)
    plane.kubectl("label", "namespace", namespace, "tier=gold")

    with watching(cluster):
        assert cluster.synced
        assert cluster.value.namespaces[namespace]["tier"] == "gold"

        plane.kubectl("label", "namespace", namespace, "tier=silver", "--overwrite")
        await_true(lambda: cluster.value.namespaces[namespace].get("tier") == "silver", "the new label")
        plane.kubectl("label", "namespace", namespace, "tier-")
        await_true(lambda: "tier" not in cluster.value.namespaces[namespace], "the label to go")


def test_the_defaults_of_limit_ranges_follow(plane: ControlPlane, namespace: str, api: Api) -> None:
    cluster = WatchedCluster(api, LOG)
    limits = {"cpu": "8", "memory": "8Gi"}

    with watching(cluster):
        assert namespace not in cluster.value.limits
        put(plane, namespace, limit_range("b", cpu="2", memory="1Gi"))
        put(plane, namespace, limit_range("a", cpu="1"))
        await_true(lambda: len(cluster.value.limits.get(namespace, ())) == 2, "two LimitRanges")

        # The API server fills in the missing defaultRequest from the default.
        assert cluster.value.limits[namespace] == (
            LimitDefaults("LimitRange a", {"cpu": "1", "memory": "8Gi"}, limits),
            LimitDefaults("LimitRange b", {"cpu": "2", "memory": "1Gi"}, limits),
        )
        plane.kubectl("delete", "limitrange", "a", "b", "-n", namespace)
        await_true(lambda: namespace not in cluster.value.limits, "the LimitRanges to go")


def test_the_overhead_of_runtime_classes_follows(plane: ControlPlane, namespace: str, api: Api) -> None:
    cluster = WatchedCluster(api, LOG)
    name = f"heavy-{namespace}"

    with watching(cluster):
        put(plane, namespace, {**RUNTIME, "metadata": {"name": name}, "overhead": {"podFixed": {"cpu": "250m"}}})
        try:
            await_true(lambda: cluster.value.overheads.get(name) == {"cpu": "250m"}, "the overhead")
        finally:
            plane.kubectl("delete", "runtimeclass", name)
        await_true(lambda: name not in cluster.value.overheads, "the RuntimeClass to go")


ROLE = "batchgate-webhook-claims"


@pytest.fixture
def granted(plane: ControlPlane) -> Iterator[None]:
    """The right to claims and volumes, as ``docs/operating.md`` gives it."""
    page = (ROOT / "docs" / "operating.md").read_text()
    commands = [line.split()[1:] for line in page.splitlines() if line.startswith("kubectl create cluster")]
    for words in commands:
        plane.kubectl(*words)
    yield
    plane.kubectl("delete", "clusterrole,clusterrolebinding", ROLE)


@pytest.mark.usefixtures("granted")
def test_claims_and_their_volumes_follow(plane: ControlPlane, namespace: str, api: Api) -> None:
    cluster, name = WatchedCluster(api, LOG, claims=True), f"pv-{namespace}"
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "none"}
    nfs = {"server": "filer", "path": "/export"}
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    volume = {**spec, "capacity": {"storage": "1Gi"}, "nfs": nfs}

    def found() -> Claim | None:
        return cluster.value.claims.find(namespace, "data") if cluster.value.claims else None

    with watching(cluster):
        assert found() == Claim(exists=False)
        put(plane, namespace, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})  # fmt: skip
        await_true(lambda: found() == Claim(storage_class="none"), "the claim")
        put(plane, "", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})
        expected = Claim(storage_class="none", volume=name, kind="nfs", source=nfs)
        await_true(lambda: found() == expected, "the controller to bind it")
        plane.kubectl("delete", "pvc", "data", "-n", namespace, "--wait=false")
        plane.kubectl("delete", "pv", name, "--wait=false")


def test_without_the_right_claims_are_unknown_and_all_else_is_known(namespace: str, api: Api) -> None:
    cluster = WatchedCluster(api, LOG, claims=True)

    with watching(cluster):
        await_true(lambda: problem(cluster), "a refusal")
        assert cluster.synced
        assert namespace in cluster.value.namespaces
        assert cluster.value.claims is None


def test_what_was_known_stays_while_the_api_server_is_away(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    with wire_to(installing.webhook(plane), tmp_path) as (wire, kubeconfig):
        cluster = WatchedCluster(connect(kubeconfig), LOG)
        with watching(cluster):
            cluster.check()
            assert (cluster.error, cluster.failures) == ("", 0)

            wire.refuses = True
            wire.cut()
            await_true(lambda: problem(cluster), "an error")
            assert cluster.failures == 1
            assert namespace in cluster.value.namespaces
            plane.kubectl("label", "namespace", namespace, "tier=gold")

            wire.refuses = False
            await_true(lambda: not problem(cluster), "the error to go")
            await_true(lambda: cluster.value.namespaces[namespace].get("tier") == "gold", "what was missed")


def test_a_webhook_judges_nothing_before_it_has_seen_the_cluster_and_then_needs_it_no_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    pki = make_pki(tmp_path / "certs")
    with wire_to(installing.webhook(plane), tmp_path) as (wire, kubeconfig):
        wire.refuses = True
        argv = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost", "--kubeconfig", kubeconfig]
        argv += ["--cert", str(pki.certificate), "--key", str(pki.key), "--policy", str(ROOT / "examples" / "policies")]
        with serving(argv, pki, tmp_path / "log") as server:
            await_true(lambda: "cluster" in status(server)["errors"], "the error")
            assert server.ask("GET", "/readyz")[0] == 503
            assert status(server)["synced"] is False
            assert server.review(**review_of({})) == (
                503,
                {"error": "nothing is known of the cluster yet; /readyz tells why"},
            )

            wire.refuses = False
            await_true(lambda: server.ask("GET", "/readyz")[0] == 200, "ready")
            await_true(lambda: "cluster" not in status(server)["errors"], "the error to go")

            # A review needs nothing of the API server: with the wire cut it is answered as ever.
            wire.refuses = True
            wire.cut()
            await_true(lambda: "cluster" in status(server)["errors"], "the error again")
            assert server.review(**review_of({}))[0] == 200
            assert server.ask("GET", "/readyz")[0] == 200
            assert server.terminate() == 0


def test_a_webhook_that_watches_is_alive_also_in_a_worker_that_was_started_again(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    pki = make_pki(tmp_path / "certs")
    argv = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost"]
    argv += ["--kubeconfig", str(installing.webhook(plane)), "--cert", str(pki.certificate), "--key", str(pki.key)]
    argv += ["--policy", str(ROOT / "examples" / "policies")]
    with serving(argv, pki, tmp_path / "log") as server:
        await_true(lambda: server.ask("GET", "/readyz")[0] == 200, "ready")
        assert server.ask("GET", "/livez")[0] == 200

        (worker,) = server.children()
        os.kill(worker, signal.SIGKILL)
        await_true(lambda: server.children() not in ([], [worker]), "another worker")
        await_true(lambda: server.ask("GET", "/readyz")[0] == 200, "ready again")
        assert server.ask("GET", "/livez")[0] == 200
        # What forks has one thread, so that no worker inherits a lock that is held or a thread that does not run.
        assert len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) == 1
        assert server.terminate() == 0


def status(server: Server) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(server.ask("GET", "/readyz")[2])
    return shown


# --- the state of queues ------------------------------------------------------------------------------------------


def published(plane: ControlPlane, namespace: str, **documents: object) -> None:
    """Publish the documents, each under the key ``<site>.json``; None takes one away."""
    data = {f"{site}.json": one if isinstance(one, str | None) else json.dumps(one) for site, one in documents.items()}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.QUEUES_CONFIG_MAP}}
    plane.run_kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(config_map))
    patch = json.dumps({"data": data})
    plane.kubectl("patch", "configmap", names.QUEUES_CONFIG_MAP, "-n", namespace, "--type=merge", "-p", patch)


def state(site: str, *, up: bool = True, age: float = 0.0) -> dict[str, Any]:
    moment = datetime.fromtimestamp(time.time() - age, UTC).isoformat()
    return {"time": moment, "queues": [{"site": site, "queue": "q", "up": up, "freeNodes": 3}]}


def known(site: str, *, up: bool = True) -> dict[tuple[str, str], QueueState]:
    return {(site, "q"): QueueState(site, "q", up=up, free_nodes=3)}


def test_the_state_of_queues_follows(plane: ControlPlane, namespace: str) -> None:
    queues = WatchedQueues(connect(str(plane.kubeconfig())), namespace, 600, LOG)
    missing = f"there is no ConfigMap {namespace}/batchgate-queues; an agent publishes it"

    with watching(queues):
        await_true(lambda: problem(queues) == missing, "an error")
        assert (queues.value, queues.modified) == (NO_QUEUE_STATES, None)
        assert queues.synced  # rules can tell that it is not known

        published(plane, namespace, a=state("a"))
        await_true(lambda: queues.value.states == known("a"), "the state of one site")
        assert (queues.error, queues.modified) == ("", queues.value.time)

        published(plane, namespace, b=state("b"))
        await_true(lambda: queues.value.states == {**known("a"), **known("b")}, "the state of both sites")

        published(plane, namespace, a=state("a", up=False), b=None)
        await_true(lambda: queues.value.states == known("a", up=False), "the state that changed")

        plane.kubectl("delete", "configmap", names.QUEUES_CONFIG_MAP, "-n", namespace)
        await_true(lambda: queues.error == missing, "the error again")
        assert queues.value is NO_QUEUE_STATES


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (state("b", age=601), "more than 10m ago; see to its agent, or --queues-max-age"),
        ({"queues": []}, "b.json has no time, so its age is unknown"),
        ("{", "batchgate-queues, b.json:2:1: is not YAML: "),
        (state("a", up=False), "batchgate-queues, b.json: has queues of site a, which that key is not for"),
        ({"queues": [{"site": "b"}]}, "batchgate-queues, b.json:1:13: queues[0].queue: "),
    ],
)
def test_a_document_that_cannot_be_used_counts_as_unknown_and_the_others_count(
    plane: ControlPlane, namespace: str, document: object, said: str
) -> None:
    queues = WatchedQueues(connect(str(plane.kubeconfig())), namespace, 600, LOG)
    published(plane, namespace, a=state("a"), b=document)

    with watching(queues):
        queues.check()
        assert queues.value.states == known("a")
        assert said in queues.error
        assert queues.failures == 1


def test_what_becomes_too_old_is_forgotten_though_nothing_changes(
    plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = WatchedQueues(connect(str(plane.kubeconfig())), namespace, 600, LOG)
    published(plane, namespace, a=state("a"))

    with watching(queues):
        await_true(lambda: queues.value.states == known("a"), "the state")
        before = queues.value
        queues.check()
        assert queues.value is before  # what is made of it is cached by it
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 700)
        queues.check()
        assert (queues.value, "more than 10m ago" in queues.error) == (NO_QUEUE_STATES, True)


def test_the_webhook_may_read_the_config_map_that_is_installed(plane: ControlPlane, api: Api) -> None:
    queues = WatchedQueues(api, names.SYSTEM_NAMESPACE, 600, LOG)

    with watching(queues):
        queues.check()
        assert queues.error == ""
        assert queues.value is NO_QUEUE_STATES
