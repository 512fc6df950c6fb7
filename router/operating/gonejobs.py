"""What is known of a Job that is gone while Pods of it are still there, as after ``kubectl delete job``.

Pure. The Pods carry what the webhook has decided, and the Job's name and uid as labels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from router import names
from router.pod.status import FAILED, SUCCEEDED

Json = dict[str, Any]
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
"""The names that a Job can have whose Pods can have this label; the API server refuses selectors of other values."""


def selector(name: str) -> str:
    """Chooses the Pods of Jobs of that name; empty if no Job can have it."""
    return f"{names.JOB_NAME}={name}" if _NAME.fullmatch(name) else ""


def newest(pods: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Of Pods of Jobs of one name: those of the Job whose Pod was created last, and those of earlier Jobs."""
    last = _uid(max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp"))))
    return [pod for pod in pods if _uid(pod) == last], [pod for pod in pods if _uid(pod) != last]


def job_of(name: str, pods: Sequence[Json]) -> dict[str, Any]:
    """As much of the Job as its Pods tell; it counts as being deleted."""
    first = pods[0]
    metadata, phases = first["metadata"], [(pod.get("status") or {}).get("phase") for pod in pods]
    deleted = [str(pod["metadata"]["deletionTimestamp"]) for pod in pods if pod["metadata"].get("deletionTimestamp")]
    return {
        "metadata": {
            "namespace": metadata["namespace"],
            "name": name,
            "uid": _uid(first),
            "deletionTimestamp": min(deleted, default=""),
            "labels": metadata.get("labels") or {},
        },
        "spec": {
            "completionMode": "Indexed",  # so Events are told by uids: its former Pods' names may be those of another
            "template": {
                "metadata": {"annotations": metadata.get("annotations") or {}},
                "spec": first.get("spec") or {},
            },
        },
        "status": {"succeeded": phases.count(SUCCEEDED), "failed": phases.count(FAILED)},
    }


def _uid(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.CONTROLLER_UID) or "")
