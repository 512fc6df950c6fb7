"""Reading a Pod's directory, whatever lies there."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from router.agent.files.inspecting import inspect
from router.host.local import LocalHost
from router.pod.layout import PodDirectory
from router.pod.leftovers import read_exit
from router.reconcile.model import Inspection


@pytest.fixture
def directory(tmp_path: Path) -> PodDirectory:
    return PodDirectory(str(tmp_path / "site"), "job", "0", "pod")


@pytest.fixture
def host(directory: PodDirectory) -> LocalHost:
    return LocalHost(directory.work_dir)


def test_no_directory(host: LocalHost, directory: PodDirectory) -> None:
    assert inspect(host, directory) == Inspection(exists=False)


def test_a_job_whose_directory_nobody_knows(tmp_path: Path) -> None:
    unknown = PodDirectory(str(tmp_path / "site"), "", "noindex", "pod")

    assert inspect(LocalHost(unknown.work_dir), unknown) == Inspection(exists=False)


def test_a_directory_that_was_just_made(host: LocalHost, directory: PodDirectory) -> None:
    host.make_directory(directory.path)

    found = inspect(host, directory)

    assert (found.exists, found.claim, found.alive, found.exits, found.job_id) == (True, b"", None, (), b"")
    assert abs(found.clock - (host.modified(directory.path) or 0)) < 60


def test_everything_that_a_script_leaves(host: LocalHost, directory: PodDirectory) -> None:
    host.put(directory.job_id, b"7.server\n")
    host.put(directory.path / "claim", b"7.server.123\n")
    host.put(directory.path / "alive", b"")
    os.utime(directory.path / "alive", (5_000, 5_000))
    os.utime(directory.path / "claim", (4_000, 4_000))
    for number in (10, 9):
        host.put(directory.exit("main", number), f"{number}\n".encode())
    host.put(directory.path / "exit" / ".main.11", b"half")

    found = inspect(host, directory)

    assert found.job_id == b"7.server\n"
    assert found.claim == b"7.server.123\n"
    assert (found.claimed_at, found.alive) == (4_000, 5_000)
    assert found.exits == (("main.9", b"9\n"), ("main.10", b"10\n"))
    assert found.logs == (("main.10", 0),)


@pytest.mark.parametrize(
    ("claim", "read"),
    [(b"", b"x" * 999 + b"\n"), (b"cancelled\n", b"x" * 999 + b"\n"), (b"7.server.123\n", b"")],
    ids=["no script began", "none can begin", "a script began"],
)
def test_what_the_batch_system_says_where_no_script_began(
    host: LocalHost, directory: PodDirectory, claim: bytes, read: bytes
) -> None:
    host.put(directory.output, b"x" * 5_000 + b"\n")
    if claim:
        host.put(directory.path / "claim", claim)

    assert inspect(host, directory).output == read


def test_an_exit_file_with_the_longest_message_is_read_whole(host: LocalHost, directory: PodDirectory) -> None:
    """Of one that is cut off nothing is known, and its container would be taken for lost."""
    said = base64.b64encode(b"x" * 4096).decode()
    numbers = '"code":0,"signal":0,"started":1,"finished":2,"deadline":false,"log":0'
    reason = f'"reason":"CreateContainerError","message":"{"€" * 1000}"'
    host.put(directory.exit("main", 0), f'{{{numbers},{reason},"said":"{said}"}}\n'.encode())

    ((name, content),) = inspect(host, directory).exits

    found = read_exit(name, content)
    assert not isinstance(found, str), found
    assert (found[1].code, len(found[1].said)) == (0, 4096)


def test_of_containers_that_have_ended_the_size_of_their_last_log_is_seen(
    host: LocalHost, directory: PodDirectory
) -> None:
    for container, number in (("init", 0), ("main", 0), ("main", 1)):
        host.put(directory.exit(container, number), b"{}\n")
        host.put(directory.log(container, number), b"x" * (number + 3))
    host.put(directory.log("sidecar"), b"still runs")

    assert sorted(inspect(host, directory).logs) == [("init.0", 3), ("main.1", 4)]


def test_what_a_program_puts_in_a_files_place_reads_as_nothing(
    host: LocalHost, directory: PodDirectory, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("7.server.1\n")
    host.make_directory(directory.path / "exit")
    Path(directory.path / "claim").symlink_to(tmp_path / "secret")
    os.mkfifo(directory.exit("main"))
    Path(directory.exit("other")).mkdir()

    found = inspect(host, directory)

    assert (found.claim, sorted(found.exits)) == (b"", [("main.0", b""), ("other.0", b"")])


def test_of_a_container_that_restarts_for_ever_the_last_runs_are_read(host: LocalHost, directory: PodDirectory) -> None:
    for number in range(2100):
        host.put(directory.exit("main", number), b"x\n")

    exits = inspect(host, directory).exits

    assert len(exits) == 2000
    assert exits[-1] == ("main.2099", b"x\n")
