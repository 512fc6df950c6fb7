"""A webhook behind a Service of a real API server, whose certificates and keys `certs ensure` keeps.

No kubelet runs here: ``Mounted`` copies Secrets and ConfigMaps to directories, as a kubelet does for a Pod.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from router import names
from router.certs.files import write_all
from router.certs.issuing import Pair
from router.controlplane import installing, programs
from router.controlplane.options import APISERVER, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from router.kube.client import Api, connect
from tests.policies import LARGE_GO_TO_HPC
from tests.processes import started
from tests.volumes import following
from tests.webhook.servers import ROOT, Pki, Server, serving

SYSTEM = names.SYSTEM_NAMESPACE
CERTS = "batchgate-certs"
ROTATION = "batchgate-rotation"
_ENDPOINTS = Options(node_grace_seconds=3600, arguments={APISERVER: ("--enable-aggregator-routing=true",)})
"""Without kube-proxy a Service's address leads nowhere, so the API server takes the endpoints themselves."""


@dataclass(frozen=True)
class Installed:
    """A cluster with ``manifests/base`` and ``manifests/certs``."""

    plane: ControlPlane
    kubeconfig: Path
    """Of service account batchgate-certs."""
    rotation: Path
    """Of service account batchgate-rotation."""

    @property
    def api(self) -> Api:
        return connect(str(self.kubeconfig))

    def start(self, *words: str, kubeconfig: Path | None = None) -> AbstractContextManager[subprocess.Popen[str]]:
        """``batchgate certs …`` in a process of its own, as the first service account or another; killed at the end."""
        argv = [sys.executable, "-m", "router", "certs", *words, "--kubeconfig", str(kubeconfig or self.kubeconfig)]
        return started(
            argv,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def certs(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as process:
            said, _ = process.communicate(timeout=120)
        return process.returncode, said

    def secret(self, name: str) -> dict[str, bytes]:
        data = self.plane.get("secret", name, "-n", SYSTEM)["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def config_map(self, name: str) -> dict[str, str]:
        data: dict[str, str] = self.plane.get("configmap", name, "-n", SYSTEM)["data"]
        return data

    def webhooks(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self.plane.get("mutatingwebhookconfiguration", names.REGISTRATION).get(
            "webhooks", []
        )
        return found

    def forget(self) -> None:
        """As before the first `certs ensure`."""
        for name in (names.WEBHOOK_CA, names.WEBHOOK_TLS, names.WEBHOOK_SIGNING):
            self.plane.kubectl("delete", "secret", name, "-n", SYSTEM, "--ignore-not-found")
        self.plane.kubectl("delete", "configmap", names.PUBLIC_KEYS_CONFIG_MAP, "-n", SYSTEM, "--ignore-not-found")
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            self.plane.kubectl("delete", kind, names.REGISTRATION, "--ignore-not-found")
        self.plane.kubectl("apply", "-k", str(installing.MANIFESTS / "certs"))


@pytest.fixture(scope="package")
def cluster(control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """One for all tests here; ``installed`` gives it without certificates."""
    with control_plane(tmp_path_factory.mktemp("certs") / "plane", _ENDPOINTS) as plane:
        installing.install(plane)
        for folder in ("certs", "rotate"):
            plane.kubectl("apply", "-k", str(installing.MANIFESTS / folder))
        plane.make_namespaces({"gated": ("researchers",)})
        plane.kubectl("label", "namespace", "gated", f"{names.LABEL_GATE}={names.GATE_ENABLED}")
        yield Installed(plane, plane.service_account(SYSTEM, CERTS), plane.service_account(SYSTEM, ROTATION))


@pytest.fixture
def installed(cluster: Installed) -> Installed:
    cluster.forget()
    return cluster


@dataclass(frozen=True)
class Mounted:
    """Directories that follow the Secrets."""

    directory: Path
    api: Api
    """As an admin."""

    def sync(self) -> None:
        """Take over what changed, whole directories at once, as a kubelet does."""
        for name in (names.WEBHOOK_TLS, names.WEBHOOK_SIGNING):
            # Without a process, which would take long enough for a step of a rotation.
            found = self.api.find(f"/api/v1/namespaces/{SYSTEM}/secrets/{name}")
            if found is None:
                continue
            data = {key: base64.b64decode(value) for key, value in found["data"].items()}
            place = self.directory / name
            if not place.exists() or data != {one.name: one.read_bytes() for one in place.iterdir()}:
                write_all(place, data)

    def following(self, seconds: float) -> AbstractContextManager[None]:
        """Have the directories follow, looking as often as this."""
        return following(self.sync, seconds)


@contextlib.contextmanager
def webhook(installed: Installed, directory: Path, *further: str) -> Iterator[tuple[Server, Mounted]]:
    """A running webhook behind Service batchgate. The Secrets must be there."""
    mounted = Mounted(directory, connect(str(installed.plane.kubeconfig())))
    mounted.sync()
    (directory / "policies").mkdir()
    (directory / "policies" / "all.yaml").write_text(LARGE_GO_TO_HPC)
    tls = directory / names.WEBHOOK_TLS
    argv = ["router", "webhook", "--listen", "0.0.0.0:0", "--host-name", f"batchgate.{SYSTEM}.svc"]
    argv += ["--cert", str(tls / "tls.crt"), "--key", str(tls / "tls.key"), "--policy", str(directory / "policies")]
    argv += ["--signing-key", str(directory / names.WEBHOOK_SIGNING / "signing.key"), *further]
    with serving(argv, Pki(Pair(b"", b""), tls), directory / "log") as server:
        installed.plane.apply(*_service(server.port))
        _run(installed.plane)
        try:
            yield server, mounted
        finally:
            # Only by force: no kubelet confirms that the Pod has ended, so each use would wait a minute for its removal.
            words = ("service,pod,node", "-l", _LABEL, "-n", SYSTEM, "--grace-period=0", "--force")
            installed.plane.kubectl("delete", *words)


_NODE = "stands-in"
_LABEL = f"app.kubernetes.io/name={names.WEBHOOK}"


def _service(port: int) -> list[dict[str, object]]:
    """The Service, and a Pod that stands for the process: the API server's proxy only leads to addresses of Pods."""
    key, _, value = _LABEL.partition("=")
    node: dict[str, object] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE, "labels": {key: value}}}
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "webhook", "image": "none", "securityContext": restricted}
    ports = [{"name": "https", "port": 443, "targetPort": port}]
    return [
        node,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": names.SERVICE, "namespace": SYSTEM, "labels": {key: value}},
            "spec": {"selector": {key: value}, "ports": ports},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "webhook", "namespace": SYSTEM, "labels": {key: value}},
            "spec": {"nodeName": _NODE, "containers": [container]},
        },
    ]


def _run(plane: ControlPlane) -> None:
    """What a kubelet would say of the Pod. No loopback address, which the API server refuses."""
    ready = {"type": "Ready", "status": "True"}
    status = {
        "status": {"phase": "Running", "podIP": _address(), "podIPs": [{"ip": _address()}], "conditions": [ready]}
    }
    words = ("pod", "webhook", "-n", SYSTEM, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    plane.kubectl("patch", *words)


def _address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
