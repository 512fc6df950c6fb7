"""What goes wrong on the bed: its daemons are ended and started again while Jobs run."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from bed import commands, daemons, site
from bed.daemons import Daemon
from bed.standing import variant
from tests.agent.bed.site import LAYOUT
from tests.agent.whole.waiting import until

LISTENER, CONNECTIONS, SESSIONS, ALL = "listener", "connections", "sessions", "all"
VICTIMS = (LISTENER, CONNECTIONS, SESSIONS, ALL)
"""Of sshd: what waits for connections, what serves them, that with all that was started over them, and everything."""


def daemon(name: str) -> Daemon:
    """One of the bed's daemons by its name; a slurmd has its node's."""
    return next(one for one in daemons.all_daemons(LAYOUT) if one.name == name)


def repair() -> None:
    """Start what does not run, and wait until all nodes are up."""
    site.start(LAYOUT, variant(LAYOUT))


def kill(name: str) -> None:
    """SIGKILL for a daemon that runs."""
    pid = daemons.running(LAYOUT, daemon(name))
    assert pid is not None, f"{name} does not run"
    os.kill(pid, signal.SIGKILL)


def start(name: str) -> None:
    """Start slurmctld or sshd where it does not run, as a service manager would, until it answers."""

    def answers() -> bool:
        daemons.start(LAYOUT, daemon(name))
        if name == "slurmctld":
            return "is UP" in commands.attempt(["scontrol", "ping"]).stdout
        return bool(commands.attempt(["ssh-keyscan", "-p", str(LAYOUT.ssh_port), "127.0.0.1"]).stdout)

    until(answers, what=f"for {name} to answer")


def kill_sshd(victim: str) -> None:
    """SIGKILL for some of sshd's processes."""
    top = daemons.running(LAYOUT, daemon("sshd"))
    assert top is not None, "sshd does not run"
    below = daemons.descendants(top)
    serving = [pid for pid in below if _program(pid) == "sshd"]
    for pid in {LISTENER: [top], CONNECTIONS: serving, SESSIONS: below, ALL: [top, *below]}[victim]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """The bed without a daemon; sshd goes with all of its connections."""
    below = daemons.descendants(daemons.running(LAYOUT, daemon(name)) or 0) if name == "sshd" else []
    daemons.stop(LAYOUT, daemon(name))
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    try:
        yield
    finally:
        repair()


@contextlib.contextmanager
def lost(node: str) -> Iterator[None]:
    """A node whose slurmd was killed: what it had started lives on."""
    kill(node)
    try:
        yield
    finally:
        repair()
