"""What a control plane can be asked to be, with the reason for each default.

Pure: values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from router.controlplane.credentials import Identity

RESEARCHERS: Final = "researchers"
"""A group that all users below are in; it may edit namespace ``default``, where the examples are applied."""

ADA: Final = Identity("ada", ("physics", RESEARCHERS))
BEN: Final = Identity("ben", ("chemistry", RESEARCHERS))
EVE: Final = Identity("eve", ("guests",))
"""Somebody who may do nothing anywhere, but is authenticated."""

ETCD: Final = "etcd"
APISERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class Options:
    """How a control plane differs from what an ordinary cluster has."""

    users: tuple[Identity, ...] = (ADA, BEN, EVE)
    """People with client certificates. What they may do is given by RoleBindings, to their groups."""

    editors: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType(
            {"default": (RESEARCHERS,), "physics": ("physics",), "chemistry": ("chemistry",)}
        )
    )
    """Namespaces, made where they lack, and the groups that get the cluster role ``edit`` in each."""

    node_grace_seconds: int | None = None
    """After how long without a heartbeat a node is not ready; None is Kubernetes' own 50 seconds."""

    eviction_seconds: int | None = None
    """How long a Pod that says nothing stays on a node that is not ready; None is Kubernetes' own 300 seconds."""

    raised_limits: bool = False
    """More requests a second for controllers than the 20 of a default cluster, for measurements: 200 Jobs a second
    are then held back by nobody. Whoever measures says that it is set."""

    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """More arguments for a component, after ours: they win."""
