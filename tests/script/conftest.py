"""A Pod whose jobs end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.script.running import Pod, wait_for


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    pod = Pod(tmp_path).make()
    yield pod
    pod.close()
    wait_for(lambda: not pod.alive(), f"for the end of {pod.alive()}")
