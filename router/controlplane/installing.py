"""Installs Batchgate on a control plane, from the manifests that a user would apply.

Shell: runs ``kubectl apply -k`` on folders of ``manifests/``. Unlike a cluster, this plane has no Service in front of
the webhook, so an overlay written here names the webhook's URL on loopback.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import yaml

from router import names
from router.controlplane import programs
from router.controlplane.plane import ControlPlane
from router.errors import ConfigError

MANIFESTS: Final = programs.MODULE.parent / "manifests"
ACTIVE_SECONDS: Final = 180.0
"""How long the API server may take to apply a new policy or webhook. It takes about a second; the limit is for busy
machines."""
_PAUSE: Final = 0.1
_CONNECT_SECONDS: Final = 10.0
_TOKEN_HOURS: Final = 30 * 24
"""A plane may run for days; in a cluster the kubelet renews the token."""
_REGISTRATION: Final = "batchgate"


def install(plane: ControlPlane) -> None:
    """Install namespace, service accounts, their roles and the guards; returns once the guards are in force.

    :raises ConfigError: kubectl refuses a manifest, or the guards do not come into force
    """
    plane.kubectl("apply", "-k", str(MANIFESTS / "base"))
    stranger = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"guard-probe{names.NODE_SUFFIX}"}}

    def guarded() -> bool:
        done = plane.run_kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(stranger))
        return bool(done.returncode) and "ValidatingAdmissionPolicy" in done.stderr

    _await(guarded, "the guards of manifests/guards are not in force")


def agent(plane: ControlPlane) -> Path:
    """The kubeconfig of the agent's service account, with a token for a month."""
    return plane.service_account(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, hours=_TOKEN_HOURS)


def webhook(plane: ControlPlane) -> Path:
    """The kubeconfig of the webhook's service account, with a token for a month."""
    return plane.service_account(names.SYSTEM_NAMESPACE, names.WEBHOOK_ACCOUNT, hours=_TOKEN_HOURS)


def register(plane: ControlPlane, url: str, ca_file: Path, namespaces: Sequence[str]) -> None:
    """Have the API server send Jobs of these namespaces to the webhook; returns once it does.

    :param url: such as ``https://127.0.0.1:8443``; the webhook must answer there already
    :param ca_file: the CA of its certificate, PEM
    :raises ConfigError: the API server does not reach the webhook; with its error
    """
    for namespace in namespaces:
        plane.kubectl("label", "namespace", namespace, "--overwrite", f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    plane.kubectl("apply", "-k", str(overlay(plane.directory / "registration", url, ca_file)))
    said = ""

    def asked() -> bool:
        nonlocal said
        # The webhook judges the probe even without an account for its user. A dry run makes no object.
        done = plane.run_kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=_probe(namespaces[0]))
        said = done.stderr
        if done.returncode:
            return "denied the request" in done.stderr
        return names.KEY_TARGET in json.loads(done.stdout)["metadata"].get("labels", {})

    _await(asked, "the API server does not ask the webhook about Jobs", lambda: said)


def unregister(plane: ControlPlane, namespaces: Sequence[str]) -> None:
    """Undo ``register``."""
    plane.kubectl("delete", "mutatingwebhookconfiguration", _REGISTRATION, "--ignore-not-found")
    plane.kubectl("delete", "validatingwebhookconfiguration", _REGISTRATION, "--ignore-not-found")
    for namespace in namespaces:
        plane.kubectl("label", "namespace", namespace, f"{names.LABEL_GATE}-")


def approve(plane: ControlPlane) -> None:
    """Wait for the agent's request for a serving certificate, and approve it, as an admin would.

    Only requests of the agent itself, for the signer of kubelets' serving certificates, are approved.

    :raises ConfigError: the agent's request or the signer's answer is not there in time
    """
    account = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"

    def issued() -> bool:
        requests = [
            request
            for request in plane.get("certificatesigningrequests")["items"]
            if request["spec"].get("username") == account
            and request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
        ]
        waiting = [one["metadata"]["name"] for one in requests if not one.get("status", {}).get("conditions")]
        if waiting:
            plane.kubectl("certificate", "approve", *waiting)
        return any(one.get("status", {}).get("certificate") for one in requests)

    _await(issued, "the agent has no serving certificate", lambda: "see its log")
    _await(lambda: _serves(plane), "the agent does not serve logs with its certificate", lambda: "see its log")


def _serves(plane: ControlPlane) -> bool:
    """Whether every virtual Node's server uses a certificate that the API server trusts, which takes a moment."""
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    nodes = plane.get("nodes", "-l", names.KEY_SITE)["items"]
    for node in nodes:
        status = node["status"]
        port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        address = next(one["address"] for one in status["addresses"] if one["type"] == "InternalIP")
        try:
            with (
                socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=address),
            ):
                continue
        except OSError:
            return False
    return bool(nodes)


def overlay(directory: Path, url: str, ca_file: Path) -> Path:
    """Write a kustomization beside the plane's files. From outside a kustomization's folder, kubectl takes only other
    kustomizations, by relative path.
    """
    directory.mkdir(exist_ok=True)
    authority = base64.b64encode(ca_file.read_bytes()).decode()

    def patch(kind: str, path: str) -> dict[str, object]:
        client = {"url": f"{url}{path}", "caBundle": authority}
        change = [{"op": "add", "path": "/webhooks/0/clientConfig", "value": client}]
        return {"target": {"kind": kind}, "patch": yaml.safe_dump(change)}

    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "registration", directory.resolve())],
        "patches": [
            patch("MutatingWebhookConfiguration", "/mutate"),
            patch("ValidatingWebhookConfiguration", "/policy"),
        ],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def _probe(namespace: str) -> str:
    container = {"name": "c", "image": "probe", "resources": {"requests": {"cpu": "1m"}}}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"generateName": "probe-", "namespace": namespace},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
    )


def _await(holds: Callable[[], bool], problem: str, said: Callable[[], str] = str) -> None:
    until = time.monotonic() + ACTIVE_SECONDS
    while not holds():
        if time.monotonic() > until:
            raise ConfigError(f"{problem} after {ACTIVE_SECONDS:.0f} s: {said().strip() or 'nothing was said'}")
        time.sleep(_PAUSE)
