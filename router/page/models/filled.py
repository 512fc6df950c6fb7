"""What the cluster fills in where a Job's Pods leave something open: the gate counts it, so the decision rests on it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router import placement
from router.errors import JobError
from router.workload import check_bounds
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster

Json = dict[str, Any]
_COUNTED: Final = ("cpu", "memory")
"""A limit is the request too where that is missing, so a container with both limits takes no default of these."""


@dataclass(frozen=True, slots=True)
class Open:
    """What a Job's Pods leave to the cluster.

    :param amounts: whether a LimitRange may give a container requests or limits
    :param runtime_class: the RuntimeClass that may add an overhead, or empty
    """

    amounts: bool = False
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """What the cluster fills in. ``unknown``: what of that the reader may not see, in words."""

    cluster: Cluster = UNKNOWN_CLUSTER
    unknown: tuple[str, ...] = ()


NOT_FILLED: Final = Filled()


def left_open(job: Json) -> Open:
    """What a Job of the cluster leaves open, as it came; nothing is known of an invalid Job."""
    try:
        check_bounds(job, "")
        pod = placement.strip(job).job["spec"]["template"]["spec"]
        containers = [*(pod.get("initContainers") or ()), *pod["containers"]]
        limits: list[Mapping[str, Any]] = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    except (JobError, KeyError):
        return Open()
    return Open(
        amounts=any(key not in one for one in limits for key in _COUNTED),
        runtime_class="" if pod.get("overhead") else str(pod.get("runtimeClassName") or ""),
    )
