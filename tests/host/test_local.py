"""The local host, beyond the contract of every Host: its directory, and what a killed command leaves."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.host import Host
from router.host.local import LocalHost


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def host(root: Path) -> LocalHost:
    return LocalHost(root)


def as_host(host: LocalHost) -> Host:
    """Typed: a LocalHost is a Host."""
    return host


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


def test_a_command_that_hangs_is_killed_with_its_children(host: LocalHost, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}; echo begun; wait"

    done = host.run(["sh", "-c", script], 4.0)

    assert (done.returncode, done.stdout) == (None, b"begun\n")
    assert done.stderr == b"gave no answer within 4 seconds"
    deadline = time.monotonic() + 60
    while any(_alive(int(pid)) for pid in pids.read_text().split()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_leaves_a_daemon_with_its_output_open_does_not_hang(host: LocalHost, tmp_path: Path) -> None:
    """The daemon is in a session of its own, so it lives on; what it holds open is closed on our side."""
    told = tmp_path / "told"
    daemon = f"import os, time; os.setsid(); open('{told}', 'w').write('%d' % os.getpid()); time.sleep(100)"
    script = f'{sys.executable} -c "{daemon}" & sleep 600'
    begun = time.monotonic()

    done = host.run(["sh", "-c", script], 8.0)

    assert done.returncode is None
    assert time.monotonic() - begun < 60
    pid = int(told.read_text())
    assert _alive(pid)
    os.kill(pid, signal.SIGKILL)
