"""What a cluster has besides its control plane: a second node, an admin, and who starts a program that has ended."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

from router import names
from router.errors import ApiError
from router.kube.client import STRATEGIC, Api
from tests.agent.whole.stack import Agent

CLOUD = "cloud-1"
_SECONDS = 1.0
_NODES = "/api/v1/nodes"
_REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_REQUESTER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"


class Surroundings(threading.Thread):
    """Approves the certificates that the agent asks for, as an admin would; and keeps a Node of the cloud where asked.

    Without a second Node that is well Kubernetes evicts nobody. Where this machine cannot run a real one, a plain Node
    object is kept Ready; it runs nothing, but lets go of the Pods that are deleted.
    """

    def __init__(self, api: Api, *, plain_node: bool) -> None:
        super().__init__(name="surroundings", daemon=True)
        self.programs: list[Agent] = []
        """What is started again where it ends by itself."""
        self._api = api
        self._plain_node = plain_node
        self._ended = threading.Event()

    def run(self) -> None:
        """Once a second; while the API server is away, nothing is done."""
        while not self._ended.wait(_SECONDS):
            for program in self.programs:
                program.keep()
            try:
                self._approve()
                if self._plain_node:
                    self._beat()
                    self._let_go()
            except ApiError:
                continue

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _beat(self) -> None:
        if self._api.find(f"{_NODES}/{CLOUD}") is None:
            self._api.create(_NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": CLOUD}})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "reason": "Tests", "lastHeartbeatTime": now}
        room = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        status = {"conditions": [ready], "capacity": room, "allocatable": room}
        self._api.patch(f"{_NODES}/{CLOUD}/status", {"status": status}, STRATEGIC)

    def _let_go(self) -> None:
        for pod in self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={CLOUD}")["items"]:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                self._api.delete(path, grace=0, uid=metadata["uid"])

    def _approve(self) -> None:
        for request in self._api.get(_REQUESTS)["items"]:
            if request["spec"]["username"] == _REQUESTER and not request["status"].get("conditions"):
                approved: dict[str, Any] = {"type": "Approved", "status": "True", "reason": "Tests"}
                request["status"] = {"conditions": [approved]}
                self._api.replace(f"{_REQUESTS}/{request['metadata']['name']}/approval", request)
