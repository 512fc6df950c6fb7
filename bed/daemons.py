"""Defines the bed's daemons, and starts, checks and ends them.

Pure except ``running`` and the functions below it, which look at processes, start and end them. All daemons stay in the
foreground, so that the pid file written here names the daemon itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bed import commands
from bed.layout import CONTROLLER, LOGIN, NODES, Layout, Variant

_END_SECONDS: Final = 15.0
_IN_HOST: Final = 'hostname "$1"; shift; exec "$@"'
_IN_NODE: Final = 'hostname "$1"; mount --bind "$2" /tmp; mount --bind "$3" "$4"; shift 4; exec "$@"'


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon of the bed.

    :param name: the name of its pid file and log; a slurmd has its node's name
    :param program: the process's name as the kernel shows it
    :param argv: the command that starts it in the foreground
    """

    name: str
    program: str
    argv: tuple[str, ...]


def daemons(layout: Layout, variant: Variant) -> list[Daemon]:
    """All daemons of a variant, in the order in which they start. They end in reverse order."""
    store = [_database(layout), _accounting()] if variant.accounting else []
    return [_munged(layout), *store, controller(), *(_node(layout, node) for node in NODES), _login(layout)]


def all_daemons(layout: Layout) -> list[Daemon]:
    """The daemons of all variants, to end whichever run."""
    return daemons(layout, Variant())


def _munged(layout: Layout) -> Daemon:
    options = {
        "key-file": layout.state / "munge" / "key",
        "seed-file": layout.state / "munge" / "seed",
        "socket": layout.munge_socket,
        "pid-file": layout.running / "munge" / "pid",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    return Daemon("munged", "munged", (*_as("munge"), "munged", "--foreground", *words))


def _database(layout: Layout) -> Daemon:
    options = {
        "datadir": layout.state / "mariadb",
        "socket": layout.database_socket,
        "pid-file": layout.own_pid_file("mariadbd"),
        "bind-address": "127.0.0.1",
        "port": layout.database_port,
        # Values that slurmdbd needs: see "Slurm Accounting Configuration" in its documentation.
        "innodb-lock-wait-timeout": 900,
        "innodb-buffer-pool-size": "128M",
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    return Daemon("mariadbd", "mariadbd", (*_as("slurm"), "mariadbd", "--no-defaults", *words))


def _accounting() -> Daemon:
    return Daemon("slurmdbd", "slurmdbd", (*_on(CONTROLLER), "slurmdbd", "-D"))


def controller() -> Daemon:
    """The daemon slurmctld."""
    return Daemon("slurmctld", "slurmctld", (*_on(CONTROLLER), "slurmctld", "-D"))


def _node(layout: Layout, node: str) -> Daemon:
    """A slurmd with its own host name and /tmp, and with the work directories themselves in place of slow mounts."""
    own = (node, str(node_tmp(layout, node)), str(layout.work), str(layout.slow))
    inside = ("unshare", "--uts", "--mount", "--propagation", "slave", "sh", "-ec", _IN_NODE, "sh", *own)
    return Daemon(node, "slurmd", (*inside, "slurmd", "-D", "-N", node))


def _login(layout: Layout) -> Daemon:
    return Daemon("sshd", "sshd", (*_on(LOGIN), "/usr/sbin/sshd", "-D", "-e", "-f", str(layout.ssh / "sshd_config")))


def node_tmp(layout: Layout, node: str) -> Path:
    """The directory that a node has as its /tmp."""
    return layout.state / "tmp" / node


def _as(user: str) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups")


def _on(host: str) -> tuple[str, ...]:
    return ("unshare", "--uts", "sh", "-ec", _IN_HOST, "sh", host)


def running(layout: Layout, daemon: Daemon) -> int | None:
    """The daemon's process id; None if it is down. A pid that now belongs to another program does not count."""
    try:
        pid = int(layout.pid_file(daemon.name).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if _is(pid, daemon.program) else None


def _is(pid: int, program: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # proc(5): "pid (name) state …"; the name may hold spaces and parentheses.
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name == program and rest.split()[0] != "Z"


def descendants(pid: int) -> list[int]:
    """The processes below this one, parents first."""
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [one for child in children for one in (child, *descendants(child))]


def start(layout: Layout, daemon: Daemon) -> bool:
    """Start a daemon that does not run.

    :return: whether it had to be started
    """
    if running(layout, daemon):
        return False
    pid = commands.start(daemon.argv, layout.logs / f"{daemon.name}.out")
    layout.pid_file(daemon.name).write_text(f"{pid}\n")
    # unshare and setpriv run first; the daemon's own name shows once they have executed it.
    commands.wait(
        lambda: _is(pid, daemon.program) or not Path(f"/proc/{pid}").exists(),
        _END_SECONDS,
        lambda: f"{daemon.name} did not start; see {layout.logs / daemon.name}.out",
    )
    return True


def stop(layout: Layout, daemon: Daemon) -> bool:
    """End a daemon, by SIGKILL if it still runs 15 s after SIGTERM.

    :return: whether it ran
    """
    pid = running(layout, daemon)
    if pid is not None:
        _end([pid], daemon.program)
    layout.pid_file(daemon.name).unlink(missing_ok=True)
    return pid is not None


def _end(pids: Sequence[int], program: str) -> None:
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        try:
            commands.wait(lambda: not any(_is(pid, program) for pid in pids), _END_SECONDS, lambda: program)
        except commands.BedError:
            continue
        return
    raise commands.BedError(f"{program} ({', '.join(map(str, pids))}) does not end, not even on SIGKILL")
