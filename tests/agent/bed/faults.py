"""What goes wrong on the bed: its daemons are ended and started again while Jobs run."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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


def resume() -> None:
    """Let drained nodes take jobs again, as an admin would.

    A slurmctld that has forgotten that it started a job starts it again. A node that has that job already refuses with
    "Duplicate jobid", and slurmctld ends the job and drains the node, for good.
    """
    drained = [node for node, state in site.node_states().items() if state.startswith("drain")]
    if drained:
        commands.attempt(["scontrol", "update", f"nodename={','.join(drained)}", "state=resume"])


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
        _signal(pid, signal.SIGKILL)
    try:
        yield
    finally:
        repair()


@contextlib.contextmanager
def hanging_sshd() -> Iterator[None]:
    """The login node's sshd, and all that serves its connections, does nothing: connections are taken, nobody answers.

    What was started over them runs on, as it does on a login node whose network hangs.
    """
    top = daemons.running(LAYOUT, daemon("sshd"))
    assert top is not None, "sshd does not run"
    stopped = [top, *(pid for pid in daemons.descendants(top) if _program(pid) == "sshd")]
    for pid in stopped:
        _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            _signal(pid, signal.SIGCONT)


@contextlib.contextmanager
def lost(node: str) -> Iterator[None]:
    """A node whose slurmd was killed: what it had started lives on."""
    kill(node)
    try:
        yield
    finally:
        repair()


@contextlib.contextmanager
def hung(node: str, batch_job: str) -> Iterator[Callable[[], None]]:
    """A node whose slurmd, and whose shepherd of one job, do nothing; the job itself runs on.

    What is given wakes them, as the node comes back.
    """
    slurmd = daemons.running(LAYOUT, daemon(node))
    assert slurmd is not None, f"{node} does not run"
    stopped = [slurmd, *shepherds(batch_job)]

    def come_back() -> None:
        while stopped:
            _signal(stopped.pop(), signal.SIGCONT)

    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield come_back
    finally:
        come_back()
        repair()


def shepherds(batch_job: str) -> list[int]:
    """The slurmstepds of a job; all that it has started is below them."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = Path(entry.path, "cmdline").read_bytes().replace(b"\0", b" ")
                if words.startswith(f"slurmstepd: [{batch_job}.".encode()):
                    found.append(int(entry.name))
    assert found, f"no slurmstepd of job {batch_job}"
    return found


@dataclass(frozen=True)
class Process:
    """A process; its number alone could be another's later. ``began`` is in ticks since the machine's start."""

    pid: int
    began: str

    @property
    def state(self) -> str:
        """One letter, as proc(5) has it: ``T`` is stopped; ``Z`` also where it is gone."""
        stat = _stat(self.pid)
        return stat[0] if stat and stat[19] == self.began else "Z"


def processes_of(batch_job: str) -> list[Process]:
    """A job's processes on its node, parents first; its shepherds are Slurm's."""
    return _known(pid for top in shepherds(batch_job) for pid in daemons.descendants(top))


def _known(pids: Iterable[int]) -> list[Process]:
    return [Process(pid, stat[19]) for pid in pids if (stat := _stat(pid))]


def _stat(pid: int) -> list[str]:
    """The fields of proc(5)'s ``stat`` from the state on; nothing where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@contextlib.contextmanager
def frozen(batch_job: str) -> Iterator[list[Process]]:
    """All processes of a job stopped, and its shepherds: what is stopped starts no others. Those that are not Slurm's.

    They wake up at the end, as those of a node do that was cut off.
    """
    above = _known(shepherds(batch_job))

    def moving() -> list[Process]:
        found = [one for one in (*above, *processes_of(batch_job)) if one.state not in "TZ"]
        for one in found:
            _signal(one.pid, signal.SIGSTOP)
        return found

    own: list[Process] = []
    try:
        until(moving, lambda found: not found, what=f"for all of job {batch_job} to stop")
        own = processes_of(batch_job)
        yield own
    finally:
        for one in (*above, *own):
            if one.state == "T":
                _signal(one.pid, signal.SIGCONT)


def _signal(pid: int, kind: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, kind)
