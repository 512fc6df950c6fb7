"""A real API server and kubectl before the kubelet API, which has the agent's identity and no more.

The API server verifies our certificate, which the cluster's own signer issued after an admin's approval, and shows its
own, by which it is known here.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

from router.certs.issuing import Pair
from router.controlplane import credentials
from router.controlplane.credentials import Identity
from router.controlplane.plane import ControlPlane
from router.kubelet.indexes import Run
from router.kubelet.runs import LoggedContainer, RunState
from tests.kubelet.cluster import Cluster, ask
from tests.kubelet.site import client_tls, until

T0 = 1_700_000_000


def test_logs_of_a_finished_pod(cluster: Cluster, namespace: str) -> None:
    pod = cluster.pod(
        namespace,
        "done",
        LoggedContainer("init", RunState.TERMINATED, 0),
        LoggedContainer("main", RunState.TERMINATED, 1),
        LoggedContainer("side", RunState.TERMINATED, 0),
    )
    cluster.site.append(pod, b"prepared\n", 0, "init")
    cluster.site.append(pod, b"first try\n", 0)
    cluster.site.append(pod, b"one\ntwo\nthree, and no end", 1)
    cluster.site.append(pod, b"beside\n", 0, "side")
    logs = ("logs", "-n", namespace, "done")

    assert cluster.said(*logs, "-c", "main") == "one\ntwo\nthree, and no end"
    assert cluster.said(*logs, "-c", "init") == "prepared\n"
    assert cluster.said(*logs, "-c", "side", "-f") == "beside\n"
    assert cluster.said(*logs, "-c", "main", "--previous") == "first try\n"
    assert cluster.said(*logs, "-c", "main", "--tail=2") == "two\nthree, and no end"
    assert cluster.said(*logs, "-c", "main", "--tail=0") == ""
    assert cluster.said(*logs, "-c", "main", "--limit-bytes=5") == "one\nt"
    cluster.site.append(pod, b"\n", 1)
    assert sorted(cluster.said(*logs, "--all-containers", "--prefix").splitlines()) == [
        "[pod/done/init] prepared",
        "[pod/done/main] one",
        "[pod/done/main] three, and no end",
        "[pod/done/main] two",
        "[pod/done/side] beside",
    ]


def test_times_of_logs(cluster: Cluster, namespace: str) -> None:
    pod = cluster.pod(namespace, "times", LoggedContainer("main", RunState.RUNNING, 0))
    run = Run(cluster.site.host, pod.directory, "main", 0)
    for second, content in [(T0, b"one\n"), (T0 + 10, b"two\n")]:
        cluster.site.append(pod, content)
        os.utime(run.log, (second, second))
        cluster.indexes.look(run)
    logs = ("logs", "-n", namespace, "times")

    assert cluster.said(*logs, "--timestamps") == (
        "2023-11-14T22:13:20.000000000Z one\n2023-11-14T22:13:30.000000000Z two\n"
    )
    assert cluster.said(*logs, "--since-time=2023-11-14T22:13:21Z") == "two\n"
    assert cluster.said(*logs, "--since=1h") == ""
    cluster.site.append(pod, b"three\n")
    assert cluster.said(*logs, "--since=1h") == "three\n"


def test_a_running_pod_is_followed_to_its_end(cluster: Cluster, namespace: str) -> None:
    pod = cluster.pod(namespace, "running", LoggedContainer("main", RunState.RUNNING, 0))
    cluster.site.append(pod, b"early\n")

    with cluster.following("logs", "-f", "--timestamps", "-n", namespace, "running") as kubectl:
        assert kubectl.stdout is not None
        assert kubectl.stdout.readline()[30:] == b" early\n"
        for line in (b"late\n", b"later\n"):
            cluster.site.append(pod, line)
            assert kubectl.stdout.readline()[30:] == b" " + line
        cluster.site.append(pod, b"last words")
        cluster.site.end(pod)
        assert kubectl.stdout.read()[30:] == b" last words"
        assert kubectl.wait(60) == 0


def test_a_kubectl_that_is_ended_gives_its_place_back(cluster: Cluster, namespace: str) -> None:
    pod = cluster.pod(namespace, "left", LoggedContainer("main", RunState.RUNNING, 0))
    cluster.site.append(pod, b"early\n")
    with cluster.following("logs", "-f", "-n", namespace, "left") as kubectl:
        assert kubectl.stdout is not None
        assert kubectl.stdout.readline() == b"early\n"
        until(lambda: cluster.sessions() > 0)

    until(lambda: cluster.sessions() == 0, seconds=60)


def test_what_has_no_logs_is_said(cluster: Cluster, namespace: str) -> None:
    pod = cluster.pod(namespace, "queued", LoggedContainer("main", RunState.WAITING, None, "Queued"))
    logs = ("logs", "-n", namespace, "queued")

    assert cluster.refused(*logs) == (
        'Error from server (BadRequest): container "main" in pod "queued" is waiting to start: Queued\n'
    )
    assert cluster.refused(*logs, "--previous") == (
        'Error from server (BadRequest): previous terminated container "main" in pod "queued" not found\n'
    )
    cluster.site.change(pod, LoggedContainer("main", RunState.TERMINATED, 0))
    assert cluster.refused(*logs) == (
        'Error from server (BadRequest): the log of container "main" in pod "queued" (run 0) is not there: the site '
        "has removed the Pod's directory, or its file system does not show it yet\n"
    )


def test_batch_jobs_are_not_entered(cluster: Cluster, namespace: str) -> None:
    cluster.pod(namespace, "closed", LoggedContainer("main", RunState.RUNNING, 0))
    status = {"phase": "Running", "conditions": [], "containerStatuses": []}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/closed/status", {"status": status})
    no = "site demo does not allow it"
    why = (
        "this Pod runs as a batch job on the nodes of an HPC site; kubectl logs and kubectl describe show what it does"
    )

    assert f"exec is not possible, as {no}" in cluster.refused("exec", "-n", namespace, "closed", "--", "date")
    assert f"attach is not possible, as {no}" in cluster.refused("attach", "-n", namespace, "closed")
    assert f"port-forward is not possible, as {why}" in cluster.refused(
        "port-forward", "-n", namespace, "closed", ":80"
    )


def test_a_certificate_of_the_clusters_ca_alone_opens_nothing(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    pod = cluster.pod(namespace, "secret", LoggedContainer("main", RunState.TERMINATED, 0))
    cluster.site.append(pod, b"secret\n")
    path = f"/containerLogs/{namespace}/secret/main"

    assert ask(path, cluster.port, client_tls(tmp_path)) == (401, b"Unauthorized")
    for identity in (credentials.node("worker-1"), Identity("somebody", ())):
        tls = identified(cluster.plane, identity, tmp_path)
        assert ask(path, cluster.port, tls)[0] == 403
        assert ask("/pods", cluster.port, tls)[0] == 403
    admin = identified(cluster.plane, Identity("root-of-it-all", ("system:masters",)), tmp_path)
    assert ask(path, cluster.port, admin) == (200, b"secret\n")


def identified(plane: ControlPlane, identity: Identity, directory: Path) -> ssl.SSLContext:
    return client_tls(directory, credentials.make_client(ca_of(plane), identity, datetime.now(UTC)))


def ca_of(plane: ControlPlane) -> Pair:
    return Pair(plane.ca_file.read_bytes(), plane.place.pki("ca.key").read_bytes())


def test_a_token_opens_what_its_account_may(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    for name in ("collector", "operator", "nobody"):
        cluster.plane.kubectl("create", "serviceaccount", name, "-n", namespace)
    for name, subresource in (("collector", "nodes/metrics"), ("operator", "nodes/proxy")):
        role = f"{namespace}-{name}"
        cluster.plane.kubectl("create", "clusterrole", role, "--verb=get", f"--resource={subresource}")
        account = f"--serviceaccount={namespace}:{name}"
        cluster.plane.kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", account)
    tls = client_tls(tmp_path)

    def status(name: str, path: str) -> int:
        token = cluster.plane.kubectl("create", "token", name, "-n", namespace).stdout.strip()
        return ask(path, cluster.port, tls, token)[0]

    try:
        until(lambda: status("operator", "/pods") == 200)
        assert [status("collector", path) for path in ("/metrics/resource", "/pods", "/stats/summary")] == [
            200,
            403,
            403,
        ]
        assert [status("operator", path) for path in ("/metrics/resource", "/pods", "/stats/summary")] == [
            200,
            200,
            200,
        ]
        assert status("nobody", "/healthz") == 403
    finally:
        for name in ("collector", "operator"):
            cluster.plane.kubectl("delete", "clusterrole,clusterrolebinding", f"{namespace}-{name}")
