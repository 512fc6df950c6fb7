"""One embedded queue a test, ended with it and everything that it started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.queue import EmbeddedQueue, until


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EmbeddedQueue]:
    made = EmbeddedQueue(tmp_path / "queue", tmp_path / "work")
    made.work.mkdir()
    made.define({"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb", "gpus": 2, "walltimeMax": 3600})
    yield made
    made.run("stop", "--delete")
    until(lambda: not _mentioning(str(tmp_path)))


def _mentioning(text: str) -> list[str]:
    """Command lines that name the test's directory: shepherds, daemons, jobs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if f"{text}/" in words and int(entry.name) != os.getpid():
            found.append(words)
    return found
