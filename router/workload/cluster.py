"""Holds what is known of the cluster when a Job is judged: the values that later admission adds to its Pods.

Pure data. The webhook fills it from watched caches, the command line from a file as ``kubectl get -o yaml`` prints it.
Unknown values are empty; they are reported as unknown instead of being guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.workload.claims import Claims
from router.workload.quotas import Quota


@dataclass(frozen=True, slots=True)
class LimitDefaults:
    """A LimitRange's defaults for containers: quantities as written, by resource name."""

    source: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Labels, LimitRange defaults and ResourceQuotas by namespace, and RuntimeClass overhead by name.

    ``claims`` is None if they are unknown.
    """

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    limits: Mapping[str, tuple[LimitDefaults, ...]] = field(default_factory=dict)
    overheads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)
    claims: Claims | None = None


UNKNOWN_CLUSTER = Cluster()
