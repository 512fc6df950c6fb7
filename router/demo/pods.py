"""The Job controller's part in the demo: makes the Pods of a Job, one per completion.

Pure: uids come from the caller. There are no retries, as the demo shows each Pod's first run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

INDEX: Final = "batch.kubernetes.io/job-completion-index"


def pods_of(job: Mapping[str, Any], new_uid: Callable[[], str]) -> list[dict[str, Any]]:
    """One Pod for each completion, owned by the Job; an Indexed Job's Pods have their index as in Kubernetes."""
    spec = job["spec"]
    indexed = spec.get("completionMode") == "Indexed"
    count = spec.get("completions") or spec.get("parallelism") or 1
    return [_pod(job, index if indexed else None, number=index, uid=new_uid()) for index in range(count)]


def _pod(job: Mapping[str, Any], index: int | None, *, number: int, uid: str) -> dict[str, Any]:
    template = job["spec"]["template"]
    metadata = template.get("metadata", {})
    labels, annotations = dict(metadata.get("labels", {})), dict(metadata.get("annotations", {}))
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job['metadata']['name']}-{number}-{uid[:5]}",
            "namespace": job["metadata"]["namespace"],
            "uid": uid,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": job["metadata"]["name"],
                    "uid": job["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"],
    }
