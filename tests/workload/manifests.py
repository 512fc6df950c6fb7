"""Small Jobs for tests: what a test does not name has the plainest value there is."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def container(name: str = "main", **fields: Any) -> Manifest:
    return {"name": name, "image": "busybox:1.36", **fields}


def asking(
    name: str = "main", requests: Manifest | None = None, limits: Manifest | None = None, **fields: Any
) -> Manifest:
    """A container with requests and limits."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return container(name, resources=resources, **fields)


def job(*containers: Manifest, pod: Manifest | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a-job"},
        "spec": {
            **spec,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": list(containers or (container(),)), **(pod or {})}
            },
        },
    }


def annotated(base: Manifest, on_job: Manifest | None = None, on_template: Manifest | None = None) -> Manifest:
    """The same Job with annotations on itself and on its Pod template."""
    template = {**base["spec"]["template"], "metadata": {"annotations": on_template or {}}}
    metadata = {**base["metadata"], "annotations": on_job or {}}
    return {**base, "metadata": metadata, "spec": {**base["spec"], "template": template}}


def mpi(*command: str, **fields: Any) -> Manifest:
    return job(container("main", command=list(command), **fields))
