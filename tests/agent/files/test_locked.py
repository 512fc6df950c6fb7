"""What a Job does to its own Pod's directory is no outage, and an outage is never taken for that.

Every case runs as a user whom a mode keeps out, unlike root: in a process of its own, and by a site helper.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Final

import pytest

from router.agent.files.inspecting import inspect
from router.host import Host
from router.host.eventloop import EventLoop
from router.host.local import LocalHost
from router.host.remote import RemoteHost
from router.pod.layout import PodDirectory
from tests.host import helpers

UID: Final = 65534
EXIT: Final = '{"code": 3}\n'


@dataclass(frozen=True)
class Seen:
    """What the agent sees and may do; the names of error numbers in place of a value."""

    exists: object = True
    locked: object = False
    claim: object = "7.pbs.1\n"
    exits: object = "main.0"
    linked: object = False
    written: object = "yes"


Damage = Callable[[Path], None]


def _replaced(name: str) -> Damage:
    """Something of the Pod's directory is a link to what has the same content elsewhere."""

    def damage(pod: Path) -> None:
        (pod / name).rename(pod.parent / "elsewhere")
        (pod / name).symlink_to(pod.parent / "elsewhere")

    return damage


def _linked_directory(pod: Path) -> None:
    pod.rename(pod.with_name("elsewhere"))
    pod.symlink_to(pod.with_name("elsewhere"))


def _linked_above(pod: Path) -> None:
    above = pod.parent
    above.rename(above.with_name("elsewhere"))
    above.symlink_to(above.with_name("elsewhere"))


def _claim_is_a_directory(pod: Path) -> None:
    (pod / "claim").unlink()
    (pod / "claim").mkdir()


def _output_is_locked(pod: Path) -> None:
    """It is read only while no script holds the claim."""
    (pod / "claim").write_text("cancelled\n")
    (pod / "output").write_text("said")
    (pod / "output").chmod(0)
    os.chown(pod / "output", UID, UID)


def _a_file_instead_of(name: str) -> Damage:
    def damage(pod: Path) -> None:
        shutil.rmtree(pod / name)
        (pod / name).write_text("")

    return damage


def _mode(name: str, mode: int) -> Damage:
    return lambda pod: (pod / name).chmod(mode)


def _others_directory(pod: Path) -> None:
    """Not the user's own doing: an admin has taken the directory away."""
    pod.chmod(0o700)
    os.chown(pod, 0, 0)


NO: Final = "ENOTDIR"
UNREADABLE: Final = Seen(locked=True, claim="", exits="", written=NO)
CASES: Final[dict[str, tuple[Damage, Seen]]] = {
    "nothing": (lambda _: None, Seen()),
    "exit is a link": (_replaced("exit"), Seen(locked=True, exits="")),
    "exit is a file": (_a_file_instead_of("exit"), Seen(locked=True, exits="")),
    "exit is locked": (_mode("exit", 0), Seen(locked=True, exits="")),
    "exit cannot be entered": (_mode("exit", 0o600), Seen(locked=True)),
    "an exit file is locked": (_mode("exit/main.0", 0), Seen()),
    "exit is gone": (lambda pod: shutil.rmtree(pod / "exit"), Seen(locked=True, exits="")),
    "log is a link": (_replaced("log"), Seen()),
    "log is locked": (_mode("log", 0), Seen()),
    "the script's output is locked": (_output_is_locked, Seen(claim="cancelled\n", linked=True)),
    "claim is a link": (_replaced("claim"), Seen(claim="")),
    "claim is a directory": (_claim_is_a_directory, Seen(claim="", written="EISDIR")),
    "claim is locked": (_mode("claim", 0), Seen(claim="")),
    "the directory is locked": (_mode("", 0), UNREADABLE),
    "the directory cannot be entered": (_mode("", 0o600), UNREADABLE),
    "the directory cannot be listed": (_mode("", 0o300), UNREADABLE),
    "the directory cannot be written": (_mode("", 0o500), Seen(written=NO)),
    "the directory is a link": (_linked_directory, UNREADABLE),
    "the directory above is a link": (_linked_above, UNREADABLE),
    "the directory above is locked": (_mode("..", 0), UNREADABLE),
    "the directory is gone": (shutil.rmtree, Seen(exists=False, locked=True, claim="", exits="", linked=True)),
}


def _seen(host: Host, directory: PodDirectory) -> Seen:
    def told(function: Callable[[], object]) -> object:
        try:
            return function()
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def written() -> str:
        host.put(directory.path / "claim", b"cancelled\n")
        return "yes"

    found = inspect(host, directory)
    exits = " ".join(name for name, _ in found.exits)
    linked = told(lambda: host.link_claim(directory.path, "cancelled"))
    return Seen(found.exists, found.locked, found.claim.decode(), exits, linked, told(written))


def _as_user(function: Callable[[], Seen]) -> Seen:
    """The function's value as the user has it, from a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)
            os.write(writing, json.dumps(asdict(function())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(child, 0)
    return Seen(**json.loads(said))


@pytest.fixture
def directory() -> Iterator[PodDirectory]:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with helpers.open_directory() as place:
        made = PodDirectory(str(place / "site"), "job", "0", "pod")
        host = LocalHost(place / "site")
        host.put(made.path / "claim", b"7.pbs.1\n")
        host.put(made.exit("main"), EXIT.encode())
        host.put(made.log("main"), b"said\n")
        for path in [place / "site", *(place / "site").rglob("*")]:
            os.chown(path, UID, UID)
        yield made


@pytest.mark.parametrize("name", CASES)
def test_a_job_s_own_doing_on_the_agent_s_machine(name: str, directory: PodDirectory) -> None:
    damage, expected = CASES[name]
    damage(Path(directory.path))

    assert _as_user(lambda: _seen(LocalHost(directory.work_dir), directory)) == expected


@pytest.fixture
def by_helper(directory: PodDirectory) -> Iterator[Host]:
    loop = EventLoop()
    helper = helpers.installed(Path(directory.work_dir).parent, python="/usr/bin/python3")
    host = RemoteHost(directory.work_dir, helpers.by_sudo(helpers.sudo_user(), helper), loop)
    yield host
    host.close()
    loop.stop()


@pytest.mark.parametrize("name", CASES)
def test_a_job_s_own_doing_seen_by_a_site_helper(name: str, directory: PodDirectory, by_helper: Host) -> None:
    damage, expected = CASES[name]
    damage(Path(directory.path))

    assert _seen(by_helper, directory) == expected


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_claim_that_is_a_directory_leaves_nothing_open(directory: PodDirectory) -> None:
    _claim_is_a_directory(Path(directory.path))
    host, before = LocalHost(directory.work_dir), _open_files()

    for _ in range(9):
        assert not host.link_claim(directory.path, "cancelled")

    assert _open_files() == before


@pytest.mark.parametrize("name", ["the directory is locked", "exit is locked", "the directory is gone"])
def test_what_its_owner_has_locked_is_removed(name: str, directory: PodDirectory, by_helper: Host) -> None:
    CASES[name][0](Path(directory.path))

    by_helper.remove_tree(directory.path)

    assert list(Path(directory.path.parent).iterdir()) == []


def _fails(function: Callable[[], object]) -> str:
    try:
        function()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "no error"


def test_a_directory_that_somebody_else_has_locked_is_an_outage(directory: PodDirectory, by_helper: Host) -> None:
    _others_directory(Path(directory.path))

    assert _fails(lambda: inspect(by_helper, directory)) == "EACCES"


def test_a_root_that_is_no_directory_is_an_outage(directory: PodDirectory) -> None:
    """Another file system may be there, or none."""
    root = Path(directory.work_dir)
    root.rename(root.with_name("moved"))
    root.write_text("")

    assert _fails(lambda: inspect(LocalHost(root), directory)) == "ENOTDIR"
    assert _fails(lambda: LocalHost(root).names(directory.path)) == "ENOTDIR"


@pytest.mark.parametrize(
    "number", [errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM, errno.ETIMEDOUT, errno.ENOTCONN]
)
@pytest.mark.parametrize("step", ["site", "pods", "job", "0", "pod", "exit", "claim"])
def test_a_file_system_that_is_away_is_an_outage(
    number: int, step: str, directory: PodDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired ticket answers EACCES, and the modes are as ever."""
    opened = os.open

    def fails(path: str | PurePath, *words: int, **fields: int) -> int:
        if PurePath(path).name == step:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *words, **fields)

    monkeypatch.setattr(os, "open", fails)

    assert _fails(lambda: inspect(LocalHost(directory.work_dir), directory)) == errno.errorcode[number]
