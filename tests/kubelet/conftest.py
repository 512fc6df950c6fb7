from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from router.controlplane.plane import ControlPlane
from tests.kubelet.cluster import Cluster, served_cluster
from tests.kubelet.site import Served, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Served]:
    """A running kubelet API of the test's own."""
    with served(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real API server that asks a running kubelet API of ours."""
    with served_cluster(plane, tmp_path_factory.mktemp("kubelet")) as running:
        yield running
