from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.webhook.servers import Pki, Server, make_pki, serving


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return make_pki(tmp_path / "certs")


@pytest.fixture
def start(pki: Pki, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start the transport with the fake review; ends with the test."""
    with ExitStack() as stack:

        def started(*options: str) -> Server:
            argv = ["tests.webhook.fake", str(pki.certificate), str(pki.key), *options]
            return stack.enter_context(serving(argv, pki, tmp_path / "log"))

        yield started


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for tests that leave nothing behind in it."""
    directory = tmp_path_factory.mktemp("shared")
    pki = make_pki(directory / "certs")
    with serving(["tests.webhook.fake", str(pki.certificate), str(pki.key)], pki, directory / "log") as server:
        yield server
