"""A real API server with a Node whose kubelet API the tests serve, and kubectl before it."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from router.kubelet.indexes import Indexes
from router.kubelet.runs import LoggedContainer, LoggedPod
from router.kubelet.serve import Kubelet, KubeletSettings
from router.pod.layout import PodDirectory
from tests.kubelet.site import QUICK, Site, until
from tests.processes import started

NODE = "kubectl.demo.batchgate"
CONTROLLER = ("--as=system:serviceaccount:kube-system:job-controller", "--as-group=system:masters")


class Cluster:
    """The control plane, with a Node whose kubelet API we are."""

    def __init__(self, plane: ControlPlane, api: Api, site: Site, indexes: Indexes, port: int) -> None:
        self.plane = plane
        self.api = api
        self.site = site
        self.indexes = indexes
        self.port = port

    def sessions(self) -> int:
        """Established connections to the kubelet API."""
        local = f":{self.port:04X}"
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return sum(words[1].endswith(local) and words[3] == "01" for words in map(str.split, lines))

    def run(self, *words: str, user: str = "ada") -> subprocess.CompletedProcess[str]:
        return self.plane.run_kubectl(*words, user=user)

    def said(self, *words: str) -> str:
        """What kubectl prints for ada where it succeeds."""
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refused(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    @contextmanager
    def following(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        argv = [str(self.plane.programs.kubectl), *words]
        with started(argv, stdout=subprocess.PIPE, env=self.plane.environment("ada")) as process:
            yield process

    def pod(self, namespace: str, name: str, *containers: LoggedContainer) -> LoggedPod:
        """A Pod on our Node, as the Job controller would make it, and as the agent knows it."""
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": NODE,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": one.name, "image": "busybox"} for one in containers if one.name != "init"],
                "initContainers": [{"name": one.name, "image": "busybox"} for one in containers if one.name == "init"],
            },
        }
        self.plane.kubectl("create", *CONTROLLER, "-f", "-", stdin=json.dumps(document))
        uid = self.plane.get("pod", name, "-n", namespace)["metadata"]["uid"]
        directory = PodDirectory(str(self.site.root), "job", "noindex", uid)
        pod = LoggedPod(namespace, name, uid, NODE, directory, containers)
        self.site.known[namespace, name] = pod
        Path(directory.log("any")).parent.mkdir(parents=True)
        return pod


def node_of(api: Api, port: int) -> None:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    spec = {"providerID": "batchgate://demo/kubectl"}
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": spec})
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [ready | {"reason": "KubeletReady", "message": "serves logs"}],
    }
    api.patch(f"/api/v1/nodes/{NODE}/status", {"status": status})


@contextmanager
def served_cluster(plane: ControlPlane, directory: Path) -> Iterator[Cluster]:
    """Our kubelet API with a certificate of the cluster's signer, and its Node."""
    api = connect(str(installing.agent(plane)))
    root = directory / "site"
    root.mkdir(mode=0o700)
    site, indexes = Site(root), Indexes()
    settings = KubeletSettings(
        NODE, ("127.0.0.1",), directory=root.parent / "pki", pace=QUICK, sessions=6, upkeep_seconds=0.2
    )
    kubelet = Kubelet(api, site, indexes, settings)
    kubelet.start()
    try:
        port = kubelet.listen("127.0.0.1", 0, NODE)
        node_of(api, port)
        plane.kubectl("certificate", "approve", until(lambda: kubelet.waiting_for))
        until((root.parent / "pki" / "kubelet.crt").exists, seconds=60)
        until(lambda: verified(plane, port), seconds=60)
        yield Cluster(plane, api, site, indexes, port)
    finally:
        kubelet.stop()
        plane.kubectl("delete", "node", NODE, "--wait=false", "--ignore-not-found")


def verified(plane: ControlPlane, port: int) -> bool:
    """Whether our certificate is one of the cluster's CA by now."""
    try:
        ask("/healthz", port, ssl.create_default_context(cafile=plane.ca_file))
    except ssl.SSLError:
        return False
    return True


def ask(path: str, port: int, tls: ssl.SSLContext, token: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
