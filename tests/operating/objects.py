"""Objects of the API, as small as these tests need them."""

from __future__ import annotations

import json
from typing import Any

from router import names

NOW = 1_767_261_600.0  # 2026-01-01T10:00:00Z
SITE = "demo"


def at(clock: str) -> str:
    """A moment of that day."""
    return f"2026-01-01T{clock}Z"


def node(queue: str, site: str = SITE, **conditions: tuple[str, str]) -> dict[str, Any]:
    """A Node of ours; conditions as status and message."""
    found = {"Ready": ("True", "")} | conditions
    return {
        "metadata": {"name": names.node_name(site, queue), "uid": f"node-{queue}"},
        "spec": {"providerID": f"batchgate://{site}/{queue}"},
        "status": {
            "conditions": [
                {"type": kind, "status": status, "message": words, "lastTransitionTime": at("09:00:00")}
                for kind, (status, words) in found.items()
            ]
        },
    }


def lease(holder: str, renewed: str, version: str = "1") -> dict[str, Any]:
    return {
        "metadata": {"name": names.lease_name(SITE), "resourceVersion": version},
        "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15},
    }


def queues(*entries: dict[str, Any], time: str = at("09:59:30")) -> dict[str, str]:
    return {f"{SITE}.json": json.dumps({"time": time, "queues": [{"site": SITE, **one} for one in entries]})}


def job(name: str, *, site: str = SITE, created: str = "09:00:00", **fields: Any) -> dict[str, Any]:
    """A Job that was judged; ``status`` and ``spec`` as given, annotations on Job and template."""
    labels = {names.KEY_TARGET: names.TARGET_HPC if site else names.TARGET_CLOUD}
    if site:
        labels |= {names.KEY_SITE: site, names.KEY_QUEUE: "batch"}
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"job-{name}",
            "creationTimestamp": at(created),
            "labels": labels,
            "annotations": fields.get("annotations", {}),
            **({"deletionTimestamp": fields["deleted"]} if "deleted" in fields else {}),
        },
        "spec": fields.get("spec", {}),
        "status": fields.get("status", {}),
    }


def over(kind: str, reason: str = "", message: str = "") -> dict[str, Any]:
    """The status of a Job that has ended."""
    said = {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at("09:30:00")}
    return {"conditions": [said]}


def pod(name: str, *, of: str = "", created: str = "09:00:00", deleted: str = "", **status: Any) -> dict[str, Any]:
    """A Pod of a Job, on the node of queue ``batch``."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of, "uid": f"job-{of}", "controller": True}
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"pod-{name}",
            "creationTimestamp": at(created),
            "labels": {names.KEY_SITE: SITE, names.KEY_QUEUE: "batch"},
            "annotations": status.pop("annotations", {}),
            "ownerReferences": [owner] if of else [],
            **({"deletionTimestamp": at(deleted)} if deleted else {}),
        },
        "spec": {"nodeName": names.node_name(SITE, "batch"), "containers": [{"name": "main", "image": "busybox"}]},
        "status": {"phase": "Pending", **status},
    }


def event(about: dict[str, Any], reason: str, message: str, clock: str, kind: str = "Pod") -> dict[str, Any]:
    metadata = about["metadata"]
    return {
        "involvedObject": {"kind": kind, "name": metadata["name"], "uid": metadata["uid"]},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "lastTimestamp": at(clock),
        "count": 2,
    }
