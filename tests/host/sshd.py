"""A real sshd on loopback, with keys of its own, for one test or several."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh
import pytest

from router.controlplane import ports
from router.host.logins import Login
from router.site.addresses import Address

_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin"
_CONFIG: Final = """
ListenAddress 127.0.0.1
Port {port}
HostKey {directory}/host_key
PidFile none
AuthorizedKeysFile {directory}/authorized_keys
TrustedUserCAKeys {directory}/user_ca.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
LogLevel DEBUG1
"""


@dataclass(slots=True)
class Sshd:
    """A running sshd: where it listens, what its client needs, and its process."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def user(self) -> str:
        """Who may log in: whoever runs the tests."""
        return pwd.getpwuid(os.geteuid()).pw_name

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def key(self) -> Path:
        return self.directory / "user_key"

    def login(self, **changed: str) -> Login:
        """What logs in there."""
        fields = {"known_hosts": str(self.known_hosts), "key": str(self.key), **changed}
        return Login(Address(self.user, "127.0.0.1", self.port), self.user, **fields)

    def connections(self) -> list[int]:
        """The processes that serve connections: children of the sshd that listens."""
        return children(self.process.pid)

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def stop(self) -> None:
        """End it with all its connections."""
        for pid in [*descendants(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)


def children(pid: int) -> list[int]:
    """The processes that a process started and that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def descendants(pid: int) -> list[int]:
    """The same, and what those started, the youngest first."""
    return [one for child in children(pid) for one in [*descendants(child), child]]


@contextlib.contextmanager
def started(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Sshd]:
    """An sshd that lets whoever runs the tests in. Skips where there is none."""
    program = shutil.which("sshd", path=_PATH)
    if program is None:
        pytest.skip("no sshd on this machine (Debian: openssh-server)")
    directory.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    keys(directory)
    server = serve(program, directory, free_port(), settings or {})
    try:
        yield server
    finally:
        server.stop()


def keys(directory: Path) -> None:
    """The keys of host and user, and what each side knows of the other."""
    for name in ("host_key", "user_key", "user_ca"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(directory / name))
        key.write_public_key(str(directory / f"{name}.pub"))
        (directory / name).chmod(0o600)
    shutil.copy(directory / "user_key.pub", directory / "authorized_keys")


def serve(program: str, directory: Path, port: int, settings: Mapping[str, str]) -> Sshd:
    """Start sshd and wait until it answers."""
    known = (directory / "host_key.pub").read_text()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}")
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    config = directory / "sshd_config"
    config.write_text(lines + _CONFIG.format(port=port, directory=directory))
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [program, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    server = Sshd(directory, port, process)
    deadline = time.monotonic() + 60
    while not answers(port):
        assert process.poll() is None, server.log()
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.05)
    while server.connections():  # whoever asked just now has a process a little longer, and tests count these
        assert time.monotonic() < deadline, server.log()
        time.sleep(0.05)
    return server


def answers(port: int) -> bool:
    """Whether an sshd greets on that port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    return ports.free(1, "127.0.0.1")[0]
