"""The contract of a Host, held by each way to reach one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from router.host import Host
from router.host.eventloop import EventLoop
from router.host.local import LocalHost
from router.host.remote import RemoteHost
from tests.host import contract, helpers


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    started = EventLoop()
    yield started
    started.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def piped(root: Path, tmp_path: Path, loop: EventLoop) -> Iterator[Host]:
    host = RemoteHost(root, helpers.piped(helpers.installed(tmp_path, programs=[contract.SHELL])), loop)
    yield host
    host.close()


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_the_local_host(case: contract.Case, root: Path) -> None:
    case(LocalHost(root), root)


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_a_site_helper_over_pipes(case: contract.Case, piped: Host, root: Path) -> None:
    case(piped, root)
