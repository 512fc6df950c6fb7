"""Clients of the real API server, direct and over a wire that can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from tests.kube.wire import Wire, wire_to


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """The API server, as admin."""
    return connect(str(plane.kubeconfig()))


@pytest.fixture
def wired(plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Wire, Api]]:
    """The same over a wire."""
    with wire_to(plane.kubeconfig(), tmp_path) as (wire, kubeconfig):
        yield wire, connect(kubeconfig)
