"""What is known of the cluster when a Job is judged: the values that admission adds to a Pod behind our back.

Pure data. The webhook fills it from watched caches, the command line from a file as ``kubectl get -o yaml`` prints
it. Empty where nothing is known, which is said, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.workload.quotas import Quota


@dataclass(frozen=True, slots=True)
class LimitDefaults:
    """A LimitRange's defaults for containers: resource name to quantity, as written there."""

    source: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Namespaces' labels, LimitRange defaults by namespace, RuntimeClass overhead by name, ResourceQuotas by namespace."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    limits: Mapping[str, tuple[LimitDefaults, ...]] = field(default_factory=dict)
    overheads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[str, tuple[Quota, ...]] = field(default_factory=dict)


UNKNOWN_CLUSTER = Cluster()
