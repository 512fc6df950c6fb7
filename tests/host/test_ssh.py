"""A real sshd that is not there, is another, refuses, hangs, is killed, or allows few sessions."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import asyncssh
import pytest

from router.host import HostUnavailable
from router.host.eventloop import EventLoop
from router.host.logins import Credentials, Login, credentials
from router.host.remote import Patience, RemoteHost
from router.host.sentences import HelperPlace
from router.host.ssh import Connections, SshOpener
from router.site.addresses import Address
from tests.host import contract, helpers, sshd
from tests.host.helpers import by_login
from tests.processes import started


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    started = EventLoop()
    yield started
    started.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    return helpers.installed(tmp_path, programs=[contract.SHELL])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[sshd.Sshd]:
    with sshd.started(tmp_path / "sshd") as running:
        yield running


def _refusal(login: Login, tmp_path: Path, loop: EventLoop) -> HostUnavailable:
    """What is said where nothing can be reached."""
    place = HelperPlace(login.user, login.address.known_as, "/none")
    host = RemoteHost(tmp_path / "site", SshOpener(Connections(login), ["/none"], place), loop)
    with pytest.raises(HostUnavailable) as caught:
        host.check()
    host.close()
    assert "\n" not in str(caught.value)
    return caught.value


def _nowhere(tmp_path: Path, host: str = "127.0.0.1", port: int = 0) -> Login:
    (tmp_path / "known").write_text("# nobody\n")
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(tmp_path / "key"))
    (tmp_path / "key").chmod(0o600)
    address = Address("ada", host, port or sshd.free_port())
    return Login(address, "ada", str(tmp_path / "known"), str(tmp_path / "key"))


def test_nothing_listens(tmp_path: Path, loop: EventLoop) -> None:
    error = _refusal(_nowhere(tmp_path), tmp_path, loop)

    assert "; start sshd there, or see host in the policy" in str(error)
    assert not error.lasting


def test_no_such_name(tmp_path: Path, loop: EventLoop) -> None:
    error = _refusal(_nowhere(tmp_path, "login.invalid"), tmp_path, loop)

    assert "no machine of that name is found" in str(error)


def test_no_known_hosts(tmp_path: Path, loop: EventLoop) -> None:
    login = _nowhere(tmp_path)
    (tmp_path / "known").unlink()

    assert f"cannot read {tmp_path}/known; write the host's key there" in str(_refusal(login, tmp_path, loop))


def test_a_key_that_others_can_read(tmp_path: Path, loop: EventLoop) -> None:
    login = _nowhere(tmp_path)
    (tmp_path / "key").chmod(0o644)

    assert f"{tmp_path}/key is not a file that its owner alone may read" in str(_refusal(login, tmp_path, loop))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
@pytest.mark.parametrize(
    ("owner", "mode", "taken"),
    [
        ("ours", 0o600, True),
        ("ours", 0o440, False),
        ("another's", 0o440, True),  # a Secret's file: root's, and readable by the Pod's group
        ("another's", 0o444, False),
    ],
)
def test_who_may_read_a_key(owner: str, mode: int, taken: bool, tmp_path: Path) -> None:
    login = _nowhere(tmp_path)
    if owner == "another's":
        os.chown(login.key, 65532, -1)
    (tmp_path / "key").chmod(mode)

    if taken:
        assert credentials(login) == Credentials(key=login.key)
    else:
        with pytest.raises(HostUnavailable, match="is not a file that its owner alone may read"):
            credentials(login)


def test_no_key(tmp_path: Path, loop: EventLoop) -> None:
    login = _nowhere(tmp_path)
    (tmp_path / "key").unlink()

    error = _refusal(login, tmp_path, loop)

    words = f"{tmp_path}/key: No such file or directory; put the private key there, or see keys in the policy"
    assert (str(error), error.lasting) == (f"{login}: {words}", True)


@pytest.mark.parametrize(("text", "words"), [(b"rubbish", "is no private key"), (None, "has a passphrase")])
def test_a_key_that_cannot_be_used(text: bytes | None, words: str, tmp_path: Path, loop: EventLoop) -> None:
    login = _nowhere(tmp_path)
    key = asyncssh.generate_private_key("ssh-ed25519")
    (tmp_path / "key").write_bytes(text or key.export_private_key("pkcs8-pem", passphrase="x"))

    error = _refusal(login, tmp_path, loop)

    assert words in str(error)
    assert error.lasting


def test_neither_key_nor_agent(tmp_path: Path, loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    known = _nowhere(tmp_path)

    error = _refusal(Login(known.address, "ada", known.known_hosts), tmp_path, loop)

    assert "names no keys and there is no ssh agent (SSH_AUTH_SOCK is not set)" in str(error)


def test_an_ssh_agent_that_is_gone(tmp_path: Path, loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "none"))
    known = _nowhere(tmp_path)

    error = _refusal(Login(known.address, "ada", known.known_hosts), tmp_path, loop)

    assert f"the ssh agent at {tmp_path}/none (SSH_AUTH_SOCK) does not answer: No such file or directory" in str(error)
    assert not error.lasting


@pytest.fixture
def ssh_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A real ssh agent without any key, as this process's."""
    if (program := shutil.which("ssh-agent")) is None:
        pytest.skip("no ssh-agent on this machine (Debian: openssh-client)")
    place = tmp_path / "agent"
    with started([program, "-D", "-a", str(place)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        deadline = time.monotonic() + 60
        while not place.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
        yield


@pytest.mark.usefixtures("ssh_agent")
def test_without_a_key_the_ssh_agent_is_asked(
    server: sshd.Sshd, tmp_path: Path, root: Path, helper: Path, loop: EventLoop
) -> None:
    error = _refusal(server.login(key=""), tmp_path, loop)
    assert "the host refuses every key of the ssh agent; add the right one" in str(error)

    subprocess.run(["ssh-add", "-q", server.key], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    host = RemoteHost(root, by_login(server, helper, key=""), loop)
    host.put(root / "a", b"x")

    assert host.read(root / "a") == b"x"
    host.close()


def test_a_host_that_takes_connections_and_says_nothing(
    tmp_path: Path, loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = _nowhere(tmp_path, port=silent.getsockname()[1])
        place = HelperPlace("ada", login.address.known_as, "/none")
        opener = SshOpener(Connections(login), ["/none"], place)
        host = RemoteHost(tmp_path / "site", opener, loop, Patience(connect=1))

        with pytest.raises(HostUnavailable, match="no answer within 1 seconds"):
            host.check()
        host.close()


def test_an_unknown_host_is_refused_with_the_line_to_add(server: sshd.Sshd, tmp_path: Path, loop: EventLoop) -> None:
    right = server.known_hosts.read_text()
    server.known_hosts.write_text("# nobody\n")

    error = _refusal(server.login(), tmp_path, loop)

    assert f"is not in {server.known_hosts}" in str(error)
    assert str(error).rpartition(": ")[2] == " ".join(right.split()[:3])
    assert error.lasting
    assert "Accepted" not in server.log()


def test_a_changed_host_key_is_refused(server: sshd.Sshd, tmp_path: Path, loop: EventLoop) -> None:
    right = server.known_hosts.read_text()
    other = (server.directory / "user_key.pub").read_text()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {other}")

    error = _refusal(server.login(), tmp_path, loop)

    assert f"shows another host key than {server.known_hosts} has" in str(error)
    assert str(error).endswith(" ".join(right.split()[:3]))
    assert "Accepted" not in server.log()


def test_a_key_that_the_host_refuses(server: sshd.Sshd, tmp_path: Path, loop: EventLoop) -> None:
    error = _refusal(server.login(key=str(server.directory / "user_ca")), tmp_path, loop)

    assert f"the host refuses {server.directory}/user_ca; write its public key into" in str(error)
    assert error.lasting


def _certify(server: sshd.Sshd, seconds: int) -> Path:
    """A key that only its certificate opens."""
    authority = asyncssh.read_private_key(str(server.directory / "user_ca"))
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = server.directory / "short"
    key.write_private_key(str(path))
    path.chmod(0o600)
    now = int(time.time())
    certificate = authority.generate_user_certificate(
        key, "test", principals=[server.user], valid_after=now - 600, valid_before=now + seconds
    )
    certificate.write_certificate(f"{path}-cert.pub")
    return path


def test_a_certificate_is_read_anew_for_each_connection(
    server: sshd.Sshd, tmp_path: Path, root: Path, helper: Path, loop: EventLoop
) -> None:
    key = _certify(server, -300)
    error = _refusal(server.login(key=str(key)), tmp_path, loop)
    assert f"the host refuses {key} and its certificate; renew the certificate" in str(error)

    _certify(server, 300)
    host = RemoteHost(root, by_login(server, helper, key=str(key)), loop)
    host.put(root / "a", b"x")

    assert "Accepted publickey" in server.log()
    host.close()


def test_a_missing_site_helper(server: sshd.Sshd, root: Path, loop: EventLoop) -> None:
    host = RemoteHost(root, by_login(server, Path("/no/site helper")), loop)

    with pytest.raises(HostUnavailable, match="there is no site helper at /no/site helper; install it there"):
        host.check()
    host.close()


def test_where_few_sessions_are_allowed_there_are_more_connections(
    tmp_path: Path, helper: Path, loop: EventLoop
) -> None:
    with sshd.started(tmp_path / "sshd", {"MaxSessions": "1"}) as server:
        opener = by_login(server, helper)
        hosts = [RemoteHost(tmp_path / f"site{number}", opener, loop) for number in range(3)]
        for number, host in enumerate(hosts):
            host.put(tmp_path / f"site{number}" / "a", b"%d" % number)

        assert [host.read(tmp_path / f"site{n}" / "a") for n, host in enumerate(hosts)] == [b"0", b"1", b"2"]
        assert len(server.connections()) == 3
        for host in hosts:
            host.close()


def test_several_users_share_a_connection(server: sshd.Sshd, tmp_path: Path, helper: Path, loop: EventLoop) -> None:
    opener = by_login(server, helper)
    hosts = [RemoteHost(tmp_path / f"site{number}", opener, loop) for number in range(3)]
    for host in hosts:
        host.check()

    assert len(server.connections()) == 1
    for host in hosts:
        host.close()


def test_a_host_without_sessions_says_so(tmp_path: Path, helper: Path, loop: EventLoop) -> None:
    with sshd.started(tmp_path / "sshd", {"MaxSessions": "0"}) as server:
        host = RemoteHost(tmp_path / "site", by_login(server, helper), loop)

        with pytest.raises(HostUnavailable, match=r"sshd starts no site helper for .*; see MaxSessions"):
            host.check()
        host.close()


def test_a_killed_sshd_that_is_started_again(server: sshd.Sshd, root: Path, helper: Path, loop: EventLoop) -> None:
    host = RemoteHost(root, by_login(server, helper), loop)
    host.put(root / "a", b"kept")

    server.stop()
    with pytest.raises(HostUnavailable):
        host.put(root / "b", b"")
    program = server.process.args[0]  # type: ignore[index]
    again = sshd.serve(str(program), server.directory, server.port, {})
    deadline = time.monotonic() + 100
    while True:
        try:
            assert host.read(root / "a") == b"kept"
            break
        except HostUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    host.close()
    again.stop()


def test_a_connection_that_is_cut_in_mid_copy_leaves_nothing_half_written(
    server: sshd.Sshd, root: Path, helper: Path, loop: EventLoop
) -> None:
    host = RemoteHost(root, by_login(server, helper), loop)
    host.put(root / "large", b"old")
    new = os.urandom(60 << 20)
    # The connection's process stops first, so that the copy is on its way when it is killed, also on a busy machine.
    for pid in server.connections():
        os.kill(pid, signal.SIGSTOP)
    killer = threading.Timer(5, _kill, [server.connections()])
    killer.start()

    with pytest.raises(HostUnavailable, match="the site helper was cut off"):
        host.put(root / "large", new)

    killer.join()
    assert host.read(root / "large") == b"old"
    assert host.names(root) == ["large"]
    host.close()


def test_a_hanging_sshd_is_given_up_and_nothing_is_done_late(
    server: sshd.Sshd, root: Path, helper: Path, loop: EventLoop, tmp_path: Path
) -> None:
    """The connection's process is stopped: nothing is refused, nothing answers, and what was sent arrives later."""
    host = RemoteHost(root, by_login(server, helper), loop, Patience(connect=60))
    host.check()
    stopped = server.connections()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)

    done = host.run([contract.SHELL, "-c", f"echo submitted >> {tmp_path}/jobs"], 1)

    assert done.returncode is None
    assert b"no answer within 1 seconds" in done.stderr
    assert host.names(root) == [], "over another connection"
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while set(stopped) & set(server.connections()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not (tmp_path / "jobs").exists()
    host.close()


def test_a_slow_connection_is_waited_for(server: sshd.Sshd, root: Path, helper: Path, loop: EventLoop) -> None:
    """Everything passes a relay that hands on 64 kilobytes at a time, each after 20 ms."""
    with Relay(server.port) as relay:
        known = server.known_hosts.read_text().replace(f":{server.port} ", f":{relay.port} ")
        server.known_hosts.write_text(known)
        login = Login(
            Address(server.user, "127.0.0.1", relay.port), server.user, str(server.known_hosts), str(server.key)
        )
        place = HelperPlace(server.user, login.address.known_as, str(helper))
        host = RemoteHost(root, SshOpener(Connections(login), [str(helper)], place), loop)
        content = os.urandom(5 << 20)

        host.put(root / "a", content)

        assert host.read(root / "a", 0, 6 << 20) == content
        host.close()


def _kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


class Relay:
    """A port that hands bytes on, slowly."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self.port = int(self._listening.getsockname()[1])

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *raised: object) -> None:
        for one in [self._listening, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(30)

    def _serve(self) -> None:
        try:
            near = self._listening.accept()[0]
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", self._target))
        self._sockets += [near, far]
        for source, sink in ((near, far), (far, near)):
            thread = threading.Thread(target=self._copy, args=(source, sink), daemon=True)
            self._threads.append(thread)
            thread.start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                time.sleep(0.02)  # the slowness itself
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
