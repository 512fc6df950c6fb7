from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubelet.site import Served, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Served]:
    """A running kubelet API of the test's own."""
    with served(tmp_path) as running:
        yield running
