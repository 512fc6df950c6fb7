"""Adds a node for Jobs that stay in the cloud: a real one if this machine allows it, else a Node object kept Ready.

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
"""The images of the examples' containers. On a real node each is a static busybox, as it cannot pull images."""


class Kind(StrEnum):
    """The requested kind of node."""

    REAL = "real"
    PLAIN = "plain"
    BEST = "best"
    """A real node if this machine allows it, else a plain one."""


@dataclass(frozen=True, slots=True)
class CloudNode:
    """A node for Jobs that stay in the cloud.

    ``obstacle`` is empty for a real node, which runs them. Else it says why there is no real node: Pods stay Pending.
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

    :raises ConfigError: a requested real node is impossible, or the node does not become Ready
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
            # Inside a container, a kubelet may fail for many reasons, which cannot all be foreseen.
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
