"""A Pod whose jobs end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from router.demo import sandbox
from tests.script.running import Pod, wait_for


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    pod = Pod(tmp_path).make()
    yield pod
    pod.close()
    wait_for(lambda: not pod.alive(), f"for the end of {pod.alive()}")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image directory with a shell and little else."""
    path = tmp_path_factory.mktemp("image") / "sandbox"
    sandbox.build(path)
    return path
