"""The ConfigMap of the policy on a real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from router import names
from router.controlplane.plane import ControlPlane

GOOD = "rules: [{name: rest, cloud: true}]\n"
OTHER = "rules: [{name: other, cloud: true}]\n"
BAD = "rules:\n  - {name: rest, clod: true}\n"
PLACE = f"ConfigMap {names.SYSTEM_NAMESPACE}/{names.POLICIES_CONFIG_MAP}"


@dataclass(frozen=True)
class PolicyMap:
    """The ConfigMap, written as an admin writes it."""

    plane: ControlPlane

    def document(self, texts: Mapping[str, str], **more: Any) -> str:
        """It as kubectl takes it."""
        metadata = {"name": names.POLICIES_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
        kind = {"apiVersion": "v1", "kind": "ConfigMap"}
        return json.dumps({**kind, "metadata": metadata, "data": dict(texts), **more})

    def put(self, texts: Mapping[str, str], **more: Any) -> None:
        """Make it, or replace it whole."""
        self.delete()
        self.plane.kubectl("create", "-f", "-", stdin=self.document(texts, **more))

    def change(self, texts: Mapping[str, str]) -> None:
        """Replace the data of the one that is there."""
        self.plane.kubectl("replace", "-f", "-", stdin=self.document(texts))

    def delete(self) -> None:
        self.plane.kubectl(
            "delete", "configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICIES_CONFIG_MAP, "--ignore-not-found"
        )


@contextmanager
def policy_map(plane: ControlPlane) -> Iterator[PolicyMap]:
    """Not there at first, nor after the test."""
    found = PolicyMap(plane)
    found.delete()
    try:
        yield found
    finally:
        found.delete()
