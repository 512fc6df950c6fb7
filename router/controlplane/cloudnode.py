"""A node for what stays in the cloud: a real one where this machine can have one, else a Node object that looks alive.

Shell: starts one process below the plane's keeper.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from router.controlplane import confining, credentials, realnode
from router.controlplane.plane import ControlPlane, await_condition
from router.controlplane.processes import Component
from router.errors import ConfigError

NAME: Final = "cloud-1"
IMAGES: Final = ("busybox:1.36",)
"""What the examples' containers name. On a real node it is a static busybox; nothing can be pulled."""


class Kind(StrEnum):
    """What is asked for."""

    REAL = "real"
    PLAIN = "plain"
    BEST = "best"
    """A real one where this machine can have one, else a plain one."""


@dataclass(frozen=True, slots=True)
class CloudNode:
    """A node that Jobs which stay in the cloud are bound to.

    ``obstacle`` is empty where it is real and runs them. Else it says why it is not: their Pods then stay Pending.
    """

    name: str
    component: Component
    obstacle: str

    @property
    def real(self) -> bool:
        """Whether Pods on it run."""
        return not self.obstacle


def join(plane: ControlPlane, kind: Kind = Kind.BEST, *, name: str = NAME, images: Sequence[str] = IMAGES) -> CloudNode:
    """Add a node to the plane, and wait until it is Ready; it ends with the plane.

    :raises ConfigError: a real one is asked for and cannot be had, or one does not become Ready
    """
    obstacle = realnode.obstacle() if kind is not Kind.PLAIN else "a plain Node object was asked for"
    if kind is Kind.REAL and obstacle:
        raise ConfigError(f"no real node: {obstacle}")
    if not obstacle:
        try:
            component = realnode.start(plane, name, images)
            confining.confine(plane, component)
            return CloudNode(name, component, "")
        except ConfigError as error:
            # Containers that run in containers may lack what a kubelet needs, in ways that cannot all be foreseen.
            if kind is Kind.REAL:
                raise
            obstacle = f"the kubelet does not run on this machine: {error}"
    return CloudNode(name, _start_plain(plane, name), obstacle)


def _start_plain(plane: ControlPlane, name: str) -> Component:
    kubeconfig = plane.certificate(credentials.node(name))
    grace = plane.options.node_grace_seconds or 40
    argv = [sys.executable, "-m", "router.controlplane.heartbeat", str(kubeconfig), name, str(grace / 4)]
    component = Component(f"{name}-heartbeat", argv, plane.place.logs, dict(os.environ), plane.keeper)
    component.start()
    await_condition(component, lambda: realnode.is_ready(plane, name))
    return component
