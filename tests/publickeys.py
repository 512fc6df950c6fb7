"""The ConfigMap with the public keys of signatures, as `certs ensure` makes it, on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from router import names
from router.controlplane.plane import ControlPlane

NAME = ("configmap", "-n", names.SYSTEM_NAMESPACE, names.PUBLIC_KEYS_CONFIG_MAP)


@contextmanager
def public_keys(plane: ControlPlane, text: str) -> Iterator[None]:
    """It holds these keys; it is gone after the test."""
    metadata = {"name": names.PUBLIC_KEYS_CONFIG_MAP, "namespace": names.SYSTEM_NAMESPACE}
    plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {names.PUBLIC_KEYS_KEY: text}})
    try:
        yield
    finally:
        plane.kubectl("delete", *NAME, "--ignore-not-found")
