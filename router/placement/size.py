"""Measures annotations, and finds the field of a Job that makes them large.

Pure. The API server counts the bytes of all keys and values of an object's annotations together and refuses more than
256 KiB (k8s.io/apimachinery/pkg/api/validation, ``TotalAnnotationSizeLimitB``). It does so after the webhook has
answered and does not name the field.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from router.placement.draft import JOB_ANNOTATIONS, POD_ANNOTATIONS, TOLERATIONS, Job, mapping, opened, sequence

KUBERNETES_LIMIT: Final = 256 * 1024
LARGEST_ANNOTATIONS: Final = 200 * 1024
"""Most bytes of all annotations of a Pod template; the rest is room for the agent's annotations on the Pod."""

_GROUPS: Final = ("initContainers", "containers")
_PARTS: Final = ("command", "args", "env", "volumeMounts")
_PATHS: Final = ("hostPath", "nfs")


def annotation_bytes(annotations: Mapping[str, Any]) -> int:
    """Bytes of all keys and values in UTF-8, as the API server counts them."""
    # At once, as these are the longest texts of a review; a Job may hold values that are no texts.
    return _length("".join([one for one in chain(annotations, annotations.values()) if isinstance(one, str)]))


def oversize(routed: Job) -> int | None:
    """The bytes of a routed Job's template annotations if they exceed ``LARGEST_ANNOTATIONS``, else None."""
    size = annotation_bytes(routed["spec"]["template"]["metadata"]["annotations"])
    return size if size > LARGEST_ANNOTATIONS else None


def record_oversize(routed: Job) -> int | None:
    """The bytes of a routed Job's own annotations if they exceed Kubernetes' limit, else None.

    They hold the user's annotations, and the user's values that Batchgate changed (``replaced``).
    """
    size = annotation_bytes(routed["metadata"]["annotations"])
    return size if size > KUBERNETES_LIMIT else None


def largest_of_record(job: Job, root: str = "") -> tuple[str, int]:
    """The field of a stripped Job that makes its own annotations large, with its size in bytes."""
    draft = opened(job)
    tolerations = sequence(draft.pod, "tolerations", TOLERATIONS)
    fields = [*_annotations(draft.metadata, JOB_ANNOTATIONS), (TOLERATIONS, len(json.dumps(tolerations)))]
    path, size = max(fields, key=lambda one: one[1])
    return root + path, size


def largest_field(job: Job, root: str = "") -> tuple[str, int]:
    """The field of a stripped Job that makes its script or annotations large, with its size in bytes."""
    draft = opened(job)
    fields = [*_annotations(draft.pod_metadata, POD_ANNOTATIONS), *_containers(draft.pod), *_volumes(draft.pod)]
    path, size = max(fields, key=lambda one: one[1], default=("spec.template.spec.containers", 0))
    return root + path, size


def _annotations(metadata: Job, path: str) -> Iterator[tuple[str, int]]:
    for key, value in mapping(metadata, "annotations", path).items():
        yield f"{path}[{key}]", _length(key) + _length(value)


def _containers(pod: Job) -> Iterator[tuple[str, int]]:
    for group in _GROUPS:
        containers = sequence(pod, group, f"spec.template.spec.{group}")
        yield f"spec.template.spec.{group}", 100 * len(containers)  # in case their number makes it large
        for index, container in enumerate(containers):
            for part in _PARTS:
                if isinstance(container, dict) and container.get(part):
                    yield f"spec.template.spec.{group}[{index}].{part}", _length(json.dumps(container[part]))


def _volumes(pod: Job) -> Iterator[tuple[str, int]]:
    """The path of each volume, which a script repeats for each mount."""
    mounts: Counter[object] = Counter()
    for group in _GROUPS:
        for container in sequence(pod, group, f"spec.template.spec.{group}"):
            listed = container.get("volumeMounts") if isinstance(container, dict) else None
            mounts.update([str(mount.get("name")) for mount in listed or () if isinstance(mount, dict)])
    for index, volume in enumerate(sequence(pod, "volumes", "spec.template.spec.volumes")):
        for kind in _PATHS:
            if isinstance(volume, dict) and isinstance(source := volume.get(kind), dict):
                size = mounts[volume.get("name")] * _length(source.get("path"))
                yield f"spec.template.spec.volumes[{index}].{kind}.path", size


def _length(value: object) -> int:
    if not isinstance(value, str):
        return 0
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
