"""What every Host does, as a table of calls and what is to come of them: the same for each way to reach one.

Each case gets a host and the directory of this machine that it works in, which the test sees too.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from router.host import Ended, Host, Piped, Status, sitehelper
from router.pod.files import Staged

Case = Callable[[Host, Path], None]
SHELL: Final = str(shutil.which("sh"))
"""The program that the cases run; a site helper has it among its FURTHER_PROGRAMS."""
_NO_LINK: Final = r"symbolic links|Not a directory"


def _a_file_is_written_whole_and_read_in_parts(host: Host, root: Path) -> None:
    host.put(root / "a" / "b", b"0123456789")

    assert host.read(root / "a" / "b") == b"0123456789"
    assert host.read(root / "a" / "b", 3, 4) == b"3456"
    assert host.read(root / "a" / "b", 10) == b""
    assert host.read(root / "a" / "b", 0, 0) == b""
    assert host.size(root / "a" / "b") == 10
    assert host.names(root / "a") == ["b"]
    assert (root / "a" / "b").stat().st_mode & 0o777 == 0o600
    assert (root / "a").stat().st_mode & 0o777 == 0o700


def _a_file_larger_than_one_read_arrives_whole(host: Host, root: Path) -> None:
    content = os.urandom((9 << 20) + 1)
    host.put(root / "large", content)

    assert host.read(root / "large", 0, 10 << 20) == content
    assert host.read(root / "large") == content[: 1 << 20]
    assert host.read(root / "large", 5, 8 << 20) == content[5 : (8 << 20) + 5]


def _what_is_not_there(host: Host, root: Path) -> None:
    assert host.names(root / "none") == []
    assert host.status(root / "none" / "x") is None
    assert host.size(root / "none") is None
    assert host.modified(root / "none") is None
    host.remove(root / "none" / "x")
    host.remove_directory(root / "none" / "x")
    host.remove_tree(root / "none")
    with pytest.raises(FileNotFoundError):
        host.read(root / "none")


def _a_second_write_replaces_the_first(host: Host, root: Path) -> None:
    host.put(root / "a", b"first")
    host.put(root / "a", b"second")

    assert host.read(root / "a") == b"second"
    assert [name for name in host.names(root) if name != ".clock"] == ["a"]


def _names_of_every_kind(host: Host, root: Path) -> None:
    names = {"größe", "a b", "new\nline", "*", "-rf", "\udcff", '"'}
    for name in names:
        host.put(root / "names" / name, name.encode(errors="surrogateescape"))

    assert set(host.names(root / "names")) == names
    assert {host.read(root / "names" / name).decode(errors="surrogateescape") for name in names} == names
    assert {os.fsdecode(path.name) for path in (root / "names").iterdir()} == names


def _what_a_name_is(host: Host, root: Path) -> None:
    host.put(root / "a" / "file", b"12")
    os.utime(root / "a" / "file", (0, 1234567890.25))

    assert host.status(root / "a" / "file") == Status("file", 2, 1234567890.25)
    assert host.modified(root / "a" / "file") == 1234567890.25
    assert (host.status(root / "a") or Status("", 0, 0)).kind == "directory"
    assert host.size(root / "a") is None


def _no_link_below_the_root_is_followed(host: Host, root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir(mode=0o777)
    (outside / "secret").write_text("secret")
    host.make_directory(root / "pods")
    (root / "pods" / "log").symlink_to(outside / "secret")
    (root / "pods" / "dir").symlink_to(outside)

    refused: list[Callable[[], object]] = [
        lambda: host.read(root / "pods" / "log"),
        lambda: host.read(root / "pods" / "dir" / "secret"),
        lambda: host.put(root / "pods" / "dir" / "new", b""),
        lambda: host.make_directory(root / "pods" / "dir" / "new"),
        lambda: host.remove(root / "pods" / "dir" / "secret"),
        lambda: host.remove_directory(root / "pods" / "dir" / "secret"),
        lambda: host.remove_tree(root / "pods" / "dir" / "secret"),
        lambda: host.remove_tree(root / "pods" / "dir"),
        lambda: host.write_pod(root / "pods" / "dir" / "pod", Staged({})),
    ]
    for call in refused:
        with pytest.raises(OSError, match=_NO_LINK):
            call()
    assert host.names(root / "pods" / "dir") == host.names(root / "pods" / "log") == []
    assert host.status(root / "pods" / "dir" / "secret") is None
    assert not host.link_claim(root / "pods" / "dir", "cancelled")
    assert host.size(root / "pods" / "log") is None
    assert (host.status(root / "pods" / "log") or Status("", 0, 0)).kind == "other"
    host.put(root / "pods" / "log", b"ours")  # replaces the link, not what it names
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def _removing_a_tree_leaves_what_links_in_it_name(host: Host, root: Path) -> None:
    outside = root.parent / "kept"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    host.put(root / "pods" / "a" / "b" / "file", b"")
    (root / "pods" / "a" / "link").symlink_to(outside)
    (root / "pods" / "a" / "b").chmod(0o500)

    host.remove_tree(root / "pods" / "a")

    assert host.names(root / "pods") == []
    assert (outside / "kept").read_text() == "kept"


def _a_tree_that_is_deeper_than_any_path(host: Host, root: Path) -> None:
    host.make_directory(root)
    here = os.open(root, os.O_RDONLY)
    for name in ["pod"] + ["d" * 200] * 300:  # no path is longer than 4096 bytes
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.chown(below, root.stat().st_uid, root.stat().st_gid)
        os.close(here)
        here = below
    os.close(here)

    host.remove_tree(root / "pod")

    assert host.names(root) == []


def _a_pipe_in_place_of_a_file_holds_nobody_up(host: Host, root: Path) -> None:
    host.make_directory(root)
    os.mkfifo(root / "log", 0o666)
    os.chown(root / "log", root.stat().st_uid, root.stat().st_gid)

    with pytest.raises(OSError, match="no ordinary file"):
        host.read(root / "log")
    assert host.size(root / "log") is None


def _nothing_outside_the_root_is_named(host: Host, root: Path) -> None:
    for path in ("/etc/passwd", f"{root}/../x", f"{root}/a/../../x", f"{root}x", "x", str(root), f"{root}/a\0b"):
        with pytest.raises(ValueError, match=r"does not lie below|is the directory itself"):
            host.put(path, b"")
    with pytest.raises(ValueError, match="does not lie below"):
        host.names("/etc")
    with pytest.raises(ValueError, match="is the directory itself"):
        host.remove_tree(root)


def _a_pods_directory_is_made_once(host: Host, root: Path) -> None:
    directory = root / "pods" / "job" / "0" / "pod"
    staged = Staged({"script": b"one", "files/v/deep/a": b"\0\xff", "files/v/empty/": b""}, {"files/v/deep/a": 0o500})

    assert host.write_pod(directory, staged)
    assert not host.write_pod(directory, Staged({"script": b"two"}))

    assert host.read(directory / "script") == b"one"
    assert host.read(directory / "files" / "v" / "deep" / "a") == b"\0\xff"
    assert sorted(host.names(directory)) == ["argv", "env", "exit", "files", "log", "script"]
    assert (directory / "script").stat().st_mode & 0o777 == 0o600
    assert (directory / "files" / "v" / "deep" / "a").stat().st_mode & 0o777 == 0o500
    assert {(path.stat().st_mode & 0o777) for path in directory.rglob("*") if path.is_dir()} == {0o700}
    assert host.names(directory / "files" / "v" / "empty") == []
    assert host.names(directory.parent) == ["pod"]


def _a_pod_that_cannot_be_written_leaves_nothing(host: Host, root: Path) -> None:
    with pytest.raises(ValueError, match="leaves the Pod's directory"):
        host.write_pod(root / "pods" / "pod", Staged({"script": b"x", "../escaped": b"x"}))
    with pytest.raises(OSError, match="File name too long"):
        host.write_pod(root / "pods" / "pod", Staged({"script": b"x", "n" * 300: b"x"}))

    assert host.names(root / "pods") == []


def _the_claim_is_taken_once(host: Host, root: Path) -> None:
    host.make_directory(root / "pod")

    assert host.link_claim(root / "pod", "cancelled")
    assert host.link_claim(root / "pod", "cancelled"), "also after a restart"
    assert host.read(root / "pod" / "claim") == b"cancelled\n"
    assert host.names(root / "pod") == ["claim"]


def _a_jobs_claim_stays_its_own(host: Host, root: Path) -> None:
    host.put(root / "pod" / "claim", b"7.server.123\n")

    assert not host.link_claim(root / "pod", "cancelled")
    assert host.read(root / "pod" / "claim") == b"7.server.123\n"
    assert host.names(root / "pod") == ["claim"]


def _a_directory_in_place_of_the_claim_is_nobodys(host: Host, root: Path) -> None:
    host.make_directory(root / "pod" / "claim")

    assert not host.link_claim(root / "pod", "cancelled")
    assert host.names(root / "pod") == ["claim"]
    with pytest.raises(IsADirectoryError):
        host.put(root / "pod" / "claim", b"cancelled\n")
    assert host.names(root / "pod") == ["claim"]


def _a_claim_without_a_directory_is_ours(host: Host, root: Path) -> None:
    assert host.link_claim(root / "pods" / "none", "cancelled")
    assert not (root / "pods").exists()


def _an_empty_directory_goes_and_others_stay(host: Host, root: Path) -> None:
    host.make_directory(root / "full" / "below")

    for name in ("full", "full/below", "none", "none/below"):
        host.remove_directory(root / name)

    assert host.names(root) == ["full"]
    host.remove_directory(root / "full")
    host.put(root / "file", b"")
    host.remove(root / "file")
    assert host.names(root) == []


def _the_clock_is_the_file_systems(host: Host, root: Path) -> None:
    before = host.clock()
    host.put(root / "a", b"")

    assert abs((host.modified(root / "a") or 0) - before) < 60
    assert host.clock() >= before


def _a_root_that_others_could_read_is_closed(host: Host, root: Path) -> None:
    host.make_directory(root)
    root.chmod(0o755)
    with contextlib.suppress(AttributeError):
        host.close()  # type: ignore[attr-defined]  # a site helper looks at it when it begins

    host.check()

    assert root.stat().st_mode & 0o777 == 0o700


def _a_command_that_ends(host: Host, root: Path) -> None:
    done = host.run([SHELL, "-c", "cat; echo err >&2; exit 3"], 60, b"in")

    assert done == Ended(3, b"in", b"err\n")


def _a_command_has_the_environment_that_is_written_before_it(host: Host, root: Path) -> None:
    done = host.run(["env", "-i", "PATH=/usr/bin:/bin", "PBS_SERVER=a b", SHELL, "-c", "env | sort"], 60)

    shown = [
        line for line in done.stdout.decode().splitlines() if not line.startswith(("PWD=", "_=", "SHLVL=", "OLDPWD="))
    ]
    assert (done.returncode, shown) == (0, ["PATH=/usr/bin:/bin", "PBS_SERVER=a b"])


def _a_command_that_does_not_read(host: Host, root: Path) -> None:
    assert host.run([SHELL, "-c", "exit 0"], 60, bytes(1 << 20)) == Ended(0, b"", b"")


def _a_command_that_is_not_there(host: Host, root: Path) -> None:
    assert host.run(["/no/such/qstat"], 60) == Ended(None, b"", b"/no/such/qstat: No such file or directory")


def _a_command_that_prints_much(host: Host, root: Path) -> None:
    done = host.run([SHELL, "-c", "head -c 3000000 /dev/zero"], 60)

    assert (done.returncode, len(done.stdout), done.stderr) == (0, 3000000, b"")


def _a_command_that_hangs_is_killed(host: Host, root: Path) -> None:
    done = host.run([SHELL, "-c", "echo begun; sleep 600 & sleep 600"], 4)

    assert done == Ended(None, b"begun\n", b"gave no answer within 4 seconds")


@functools.cache
def srun() -> str:
    """A stand-in for Slurm's srun, which runs its last word as a script of sh; for a helper's FURTHER_PROGRAMS too."""
    directory = Path(tempfile.mkdtemp(prefix="srun-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    directory.chmod(0o755)
    (directory / "srun").write_text('#!/bin/sh\nfor last; do :; done\nexec /bin/sh "$last"\n')
    (directory / "srun").chmod(0o755)
    return str(directory / "srun")


def _piped(host: Host, root: Path, script: str) -> Piped:
    """The script, started as a step within a running job: a site helper becomes no other program."""
    host.put(root / "p" / "inside", script.encode())
    return host.pipe([srun(), "--jobid=7", *sitehelper.PLACE, str(root / "p" / "inside")])


def _bytes_without_an_end(host: Host, root: Path) -> None:
    piped = _piped(host, root, "echo said >&2; exec cat")
    sent, received = os.urandom(1 << 20) * 5, bytearray()
    sender = threading.Thread(target=piped.end.sendall, args=(sent,))
    sender.start()
    while len(received) < len(sent):
        received += piped.end.recv(1 << 16)
    sender.join()

    assert received == sent
    _await(lambda: piped.complaint().endswith("said\n"))
    piped.close()


def _whoever_does_not_read_holds_the_other_back(host: Host, root: Path) -> None:
    piped = _piped(host, root, "exec sleep 10")
    piped.end.settimeout(3)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += piped.end.send(bytes(1 << 16))

    assert sent < 8 << 20
    piped.close()


def _the_end_of_a_program_is_the_end_of_its_bytes(host: Host, root: Path) -> None:
    piped = _piped(host, root, "echo last; exit 3")

    assert piped.end.makefile("rb").read() == b"last\n"
    piped.close()


def _closing_ends_the_program(host: Host, root: Path) -> None:
    piped = _piped(host, root, f"cat >/dev/null; echo ended >{root}/ended")
    piped.close()

    _await(lambda: host.status(root / "ended") is not None)


def _await(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


CASES: Final[tuple[Case, ...]] = (
    _a_file_is_written_whole_and_read_in_parts,
    _a_file_larger_than_one_read_arrives_whole,
    _what_is_not_there,
    _a_second_write_replaces_the_first,
    _names_of_every_kind,
    _what_a_name_is,
    _no_link_below_the_root_is_followed,
    _removing_a_tree_leaves_what_links_in_it_name,
    _a_tree_that_is_deeper_than_any_path,
    _a_pipe_in_place_of_a_file_holds_nobody_up,
    _nothing_outside_the_root_is_named,
    _a_pods_directory_is_made_once,
    _a_pod_that_cannot_be_written_leaves_nothing,
    _the_claim_is_taken_once,
    _a_jobs_claim_stays_its_own,
    _a_directory_in_place_of_the_claim_is_nobodys,
    _a_claim_without_a_directory_is_ours,
    _an_empty_directory_goes_and_others_stay,
    _the_clock_is_the_file_systems,
    _a_root_that_others_could_read_is_closed,
    _a_command_that_ends,
    _a_command_has_the_environment_that_is_written_before_it,
    _a_command_that_does_not_read,
    _a_command_that_is_not_there,
    _a_command_that_prints_much,
    _a_command_that_hangs_is_killed,
    _bytes_without_an_end,
    _whoever_does_not_read_holds_the_other_back,
    _the_end_of_a_program_is_the_end_of_its_bytes,
    _closing_ends_the_program,
)


def name_of(case: Case) -> str:
    """The name of a case in a test's id."""
    return case.__name__.strip("_")
