"""The local host: whole files, no links followed, commands that end in time."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.host import Ended, Host, Status
from router.host.local import LocalHost
from router.podfiles import Staged


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def host(root: Path) -> LocalHost:
    return LocalHost(root)


def as_host(host: LocalHost) -> Host:
    """Typed: a LocalHost is a Host."""
    return host


def test_a_file_is_written_whole_and_read_in_parts(host: LocalHost, root: Path) -> None:
    host.put(root / "a" / "b", b"0123456789")

    assert host.read(root / "a" / "b") == b"0123456789"
    assert host.read(root / "a" / "b", 3, 4) == b"3456"
    assert host.read(root / "a" / "b", 10) == b""
    assert host.size(root / "a" / "b") == 10
    assert host.names(root / "a") == ["b"]
    assert (root / "a" / "b").stat().st_mode & 0o777 == 0o600
    assert (root / "a").stat().st_mode & 0o777 == 0o700


def test_a_file_larger_than_one_read_arrives_whole(host: LocalHost, root: Path) -> None:
    content = os.urandom(3 << 20)
    host.put(root / "large", content)

    assert host.read(root / "large", 0, 4 << 20) == content
    assert host.read(root / "large") == content[: 1 << 20]


def test_what_is_not_there(host: LocalHost, root: Path) -> None:
    assert host.names(root / "none") == []
    assert host.status(root / "none" / "x") is None
    assert host.size(root / "none") is None
    assert host.modified(root / "none") is None
    host.remove(root / "none" / "x")
    host.remove_tree(root / "none")
    with pytest.raises(FileNotFoundError):
        host.read(root / "none")


def test_a_second_write_replaces_the_first(host: LocalHost, root: Path) -> None:
    host.put(root / "a", b"first")
    host.put(root / "a", b"second")

    assert host.read(root / "a") == b"second"
    assert host.names(root) == ["a"]


def test_no_link_below_the_root_is_followed(host: LocalHost, root: Path, tmp_path: Path) -> None:
    """A Job's program plants links to what it may not show or change."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    host.make_directory(root / "pods")
    (root / "pods" / "log").symlink_to(outside / "secret")
    (root / "pods" / "dir").symlink_to(outside)

    for path in (root / "pods" / "log", root / "pods" / "dir" / "secret"):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            host.read(path)
    assert host.size(root / "pods" / "log") is None
    assert (host.status(root / "pods" / "log") or Status("", 0, 0)).kind == "other"
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        host.names(root / "pods" / "dir")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        host.put(root / "pods" / "dir" / "new", b"")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        host.remove(root / "pods" / "dir" / "secret")
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        host.write_pod(root / "pods" / "dir" / "pod", Staged({}))
    host.put(root / "pods" / "log", b"ours")  # replaces the link, not what it names
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_removing_a_tree_leaves_what_links_in_it_name(host: LocalHost, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    host.put(root / "pods" / "a" / "file", b"")
    (root / "pods" / "a" / "link").symlink_to(outside)

    host.remove_tree(root / "pods" / "a")

    assert host.names(root / "pods") == []
    assert (outside / "kept").read_text() == "kept"


def test_a_pipe_in_place_of_a_file_holds_nobody_up(host: LocalHost, root: Path) -> None:
    host.make_directory(root)
    os.mkfifo(root / "log")

    with pytest.raises(OSError, match="no ordinary file"):
        host.read(root / "log")
    assert host.size(root / "log") is None


@pytest.mark.parametrize("path", ["/etc/passwd", "{root}/../x", "{root}/a/../../x", "{root}"])
def test_nothing_outside_the_root_is_named(host: LocalHost, root: Path, path: str) -> None:
    with pytest.raises(ValueError, match=r"does not lie below|is the directory itself"):
        host.put(path.format(root=root), b"")


def test_a_pods_directory_is_made_once(host: LocalHost, root: Path) -> None:
    directory = root / "pods" / "job" / "0" / "pod"

    assert host.write_pod(directory, Staged({"script": b"one"}))
    assert not host.write_pod(directory, Staged({"script": b"two"}))

    assert host.read(directory / "script") == b"one"
    assert (root / "pods" / "job").stat().st_mode & 0o777 == 0o700
    assert host.names(directory.parent) == ["pod"]


def test_the_claim_is_taken_once(host: LocalHost, root: Path) -> None:
    directory = root / "pods" / "pod"
    host.make_directory(directory)

    assert host.link_claim(directory, "cancelled")
    assert host.link_claim(directory, "cancelled"), "also after a restart"
    assert host.read(directory / "claim") == b"cancelled\n"
    assert host.names(directory) == ["claim"]


def test_a_jobs_claim_stays_its_own(host: LocalHost, root: Path) -> None:
    directory = root / "pods" / "pod"
    host.put(directory / "claim", b"7.server.123\n")

    assert not host.link_claim(directory, "cancelled")
    assert host.read(directory / "claim") == b"7.server.123\n"


def test_a_claim_without_a_directory_is_ours(host: LocalHost, root: Path) -> None:
    assert host.link_claim(root / "pods" / "none", "cancelled")
    assert not (root / "pods").exists()


def test_the_clock_is_the_file_systems(host: LocalHost, root: Path) -> None:
    before = host.clock()
    host.put(root / "a", b"")

    assert abs((host.modified(root / "a") or 0) - before) < 60
    assert host.clock() >= before


def test_a_root_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "site").mkdir()
        os.chown(tmp_path / "site", 12345, 12345)
        with pytest.raises(ConfigError, match="belongs to uid 12345"):
            LocalHost(tmp_path / "site").check()
    else:
        with pytest.raises(ConfigError, match="belongs to uid 0"):
            LocalHost("/usr").check()


def test_a_root_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="work directory cannot be used"):
        LocalHost(tmp_path / "file" / "site").check()


def test_the_root_is_private(host: LocalHost, root: Path) -> None:
    root.mkdir(mode=0o755)

    host.check()

    assert root.stat().st_mode & 0o777 == 0o700


def test_a_command_that_ends(host: LocalHost) -> None:
    done = host.run(["sh", "-c", "cat; echo err >&2; exit 3"], 30, b"in")

    assert done == Ended(3, b"in", b"err\n")


def test_a_command_that_is_not_there(host: LocalHost) -> None:
    done = host.run(["/no/such/program"], 30)

    assert done == Ended(None, b"", b"/no/such/program: No such file or directory")


def test_a_command_that_hangs_is_killed_with_its_children(host: LocalHost, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}; echo begun; wait"

    done = host.run(["sh", "-c", script], 1.0)

    assert (done.returncode, done.stdout) == (None, b"begun\n")
    assert done.stderr == b"gave no answer within 1 seconds"
    deadline = time.monotonic() + 20
    while any(_alive(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_leaves_a_daemon_with_its_output_open_does_not_hang(host: LocalHost) -> None:
    """The daemon is in a session of its own, so it lives on; what it holds open is closed on our side."""
    daemon = "import os, time; os.setsid(); time.sleep(10)"
    script = f"{sys.executable} -c '{daemon}' & sleep 600"
    begun = time.monotonic()

    done = host.run(["sh", "-c", script], 1.0)

    assert done.returncode is None
    assert time.monotonic() - begun < 25
