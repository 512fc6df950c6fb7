"""The host of nobody's Pods: it has no files, makes none, and runs nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from router.agent.files.inspecting import inspect
from router.agent.users.nowhere import Nowhere
from router.pod.files import Staged
from router.pod.layout import PodDirectory
from router.pod.life import CANCELLED
from router.reconcile.model import Inspection

DIRECTORY = PodDirectory("", "job-1", "noindex", "u1")


def test_there_is_no_file() -> None:
    host = Nowhere()

    assert inspect(host, DIRECTORY) == Inspection(exists=False)
    assert (host.names("/"), host.size("/x"), host.modified("/x")) == ([], None, None)
    assert host.link_claim(DIRECTORY.path, CANCELLED), "without a directory nothing can start"
    with pytest.raises(FileNotFoundError):
        host.read("/x")


@pytest.mark.parametrize(
    "make",
    [
        lambda host: host.put("/x", b""),
        lambda host: host.make_directory("/x"),
        lambda host: host.write_pod("/x", Staged({})),
    ],
)
def test_none_is_made(make: Callable[[Nowhere], object]) -> None:
    with pytest.raises(PermissionError, match="the Pod's HPC user is not proven"):
        make(Nowhere())


def test_no_command_is_run() -> None:
    ended = Nowhere().run(["/bin/true"], 1)

    assert ended.returncode is None
    assert b"the Pod's HPC user is not proven" in ended.stderr
