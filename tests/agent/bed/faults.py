"""What goes wrong on the bed: its daemons are ended and started again while Jobs run."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from bed import daemons, site
from bed.daemons import Daemon
from bed.standing import variant
from tests.agent.bed.site import LAYOUT


def daemon(name: str) -> Daemon:
    """One of the bed's daemons by its name; a slurmd has its node's."""
    return next(one for one in daemons.all_daemons(LAYOUT) if one.name == name)


def repair() -> None:
    """Start what does not run, and wait until all nodes are up."""
    site.start(LAYOUT, variant(LAYOUT))


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
    pid = daemons.running(LAYOUT, daemon(node))
    assert pid is not None, f"{node} does not run"
    os.kill(pid, signal.SIGKILL)
    try:
        yield
    finally:
        repair()
