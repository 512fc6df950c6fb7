"""The contract of a Host, held by each way to reach one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.host import Host
from router.host.eventloop import EventLoop
from router.host.local import LocalHost
from router.host.remote import RemoteHost
from router.host.sentences import HelperPlace
from router.host.ssh import Connections, SshOpener
from router.host.sudo import sudo_argv
from tests.host import contract, helpers, sshd
from tests.host.helpers import by_login

PROGRAMS = [contract.SHELL, contract.srun()]


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
    host = RemoteHost(root, helpers.piped(helpers.installed(tmp_path, programs=PROGRAMS)), loop)
    yield host
    host.close()


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_the_local_host(case: contract.Case, root: Path) -> None:
    case(LocalHost(root), root)


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_a_site_helper_over_pipes(case: contract.Case, piped: Host, root: Path) -> None:
    case(piped, root)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.started(tmp_path_factory.mktemp("sshd") / "sshd") as running:
        yield running


@pytest.fixture
def by_ssh(server: sshd.Sshd, root: Path, tmp_path: Path, loop: EventLoop) -> Iterator[Host]:
    host = RemoteHost(root, by_login(server, helpers.installed(tmp_path, programs=PROGRAMS)), loop)
    yield host
    host.close()


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_a_site_helper_over_ssh(case: contract.Case, by_ssh: Host, root: Path) -> None:
    case(by_ssh, root)


@pytest.fixture
def older(root: Path, tmp_path: Path, loop: EventLoop) -> Iterator[Host]:
    helper = helpers.installed(tmp_path, programs=PROGRAMS, python=helpers.oldest_python())
    host = RemoteHost(root, helpers.piped(helper), loop)
    yield host
    host.close()


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_a_site_helper_in_the_oldest_python(case: contract.Case, older: Host, root: Path) -> None:
    case(older, root)


@pytest.fixture
def others() -> Iterator[tuple[Path, str]]:
    """A directory with a site helper and one below it of somebody else, and who that is."""
    user = helpers.sudo_user()
    with helpers.open_directory() as directory:
        helpers.installed(directory, programs=PROGRAMS, python=shutil.which("python3", path="/usr/bin") or "")
        (directory / "theirs").mkdir(mode=0o755)
        shutil.chown(directory / "theirs", user)
        yield directory, user


@pytest.mark.parametrize("case", contract.CASES, ids=contract.name_of)
def test_a_site_helper_through_sudo(case: contract.Case, others: tuple[Path, str], loop: EventLoop) -> None:
    directory, user = others
    host = RemoteHost(directory / "theirs" / "site", helpers.by_sudo(user, directory / "sitehelper"), loop)

    case(host, directory / "theirs" / "site")

    assert host.status(directory / "theirs" / "site" / "none") is None
    assert (directory / "theirs" / "site").owner() == user
    host.close()


def test_a_site_helper_over_ssh_through_sudo(server: sshd.Sshd, others: tuple[Path, str], loop: EventLoop) -> None:
    directory, user = others
    argv = sudo_argv(user, str(directory / "sitehelper"))
    opener = SshOpener(
        Connections(server.login()), argv, HelperPlace(user, "login", str(directory / "sitehelper"), sudo=True)
    )
    host = RemoteHost(directory / "theirs" / "site", opener, loop)

    host.put(directory / "theirs" / "site" / "a", b"theirs")

    assert (directory / "theirs" / "site" / "a").owner() == user
    assert host.run([contract.SHELL, "-c", "id -un"], 60).stdout.decode().strip() == user
    host.close()
