"""Keeps a plain Node object Ready: ``python -m router.controlplane.heartbeat KUBECONFIG NODE SECONDS``.

Shell: an endless process with the identity of that node. The node runs no Pods; Pods bound to it only show where they
would run.
"""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

from router.errors import ApiError, Conflict
from router.kube.client import STRATEGIC, Api, connect

log = logging.getLogger("batchgate.heartbeat")

_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_ROOM: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def main(kubeconfig: str, name: str, seconds: float) -> None:
    """Make the Node, then renew its status and Lease every ``seconds``; errors of the API server are only logged."""
    logging.basicConfig(level=logging.INFO)
    api = connect(kubeconfig)
    while True:
        try:
            _beat(api, name, seconds)
        except ApiError as error:
            log.warning("%s", error)
        time.sleep(seconds)


def _beat(api: Api, name: str, seconds: float) -> None:
    if api.find(f"{_NODES}/{name}") is None:
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        api.create(_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    api.patch(f"{_NODES}/{name}/status", {"status": _status()}, STRATEGIC)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": name, "leaseDurationSeconds": max(1, round(seconds * 4)), "renewTime": now}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    try:
        api.create(_LEASES, {**kind, "spec": spec})
    except Conflict:
        api.patch(f"{_LEASES}/{name}", {"spec": spec})


def _status() -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Heartbeat",
        "message": "a Node object without a kubelet: it shows where Pods would run, and runs none",
        "lastHeartbeatTime": now,
    }
    return {"capacity": _ROOM, "allocatable": _ROOM, "conditions": [ready]}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
