"""The options of a control plane, with the reason for each default.

Pure: values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from router.controlplane.credentials import Identity

RESEARCHERS: Final = "researchers"
"""The group of Ada and Ben; it may edit namespace ``default``, where the examples are applied."""

ADA: Final = Identity("ada", ("physics", RESEARCHERS))
BEN: Final = Identity("ben", ("chemistry", RESEARCHERS))
EVE: Final = Identity("eve", ("guests",))
"""An authenticated user without any rights."""

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Options:
    """The differences of a control plane from an ordinary cluster."""

    users: tuple[Identity, ...] = (ADA, BEN, EVE)
    """Users with client certificates. RoleBindings give rights to their groups."""

    editors: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType(
            {"default": (RESEARCHERS,), "physics": ("physics",), "chemistry": ("chemistry",)}
        )
    )
    """Namespaces, made if missing, and the groups that get the cluster role ``edit`` in each."""

    node_grace_seconds: int | None = None
    """Seconds without a heartbeat after which a node is not ready; None is Kubernetes' own 50 seconds."""

    eviction_seconds: int | None = None
    """Seconds that a Pod without tolerations stays on an unready node; None is Kubernetes' own 300 seconds."""

    raised_limits: bool = False
    """More requests per second for controllers than a default cluster's 20, for measurements: the limit then allows 200
    Jobs per second. A report of such a measurement says so."""

    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Further arguments for a component, after ours, so that they win."""
