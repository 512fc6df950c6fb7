"""Configures the site from the installed packages, and starts and ends its daemons in order.

Shell: writes files, makes devices, starts and ends daemons.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import stat
from pathlib import Path
from typing import Final

from bed import accounts, commands, daemons, database, files, login, slurmconf
from bed.daemons import Daemon
from bed.layout import (
    GPU_MAJOR,
    GPUS,
    HELPER,
    HOSTS,
    IMAGES,
    LOOK,
    NODES,
    OPENMPI,
    SLURM,
    SUDOERS,
    USERS,
    Layout,
    Variant,
)

SOURCE: Final = Path(__file__).resolve().parent.parent
_SECONDS: Final = 40.0
_UP: Final = {"idle", "mixed", "allocated", "completing", "planned"}
_INSTALLED: Final = {HELPER: "sitehelper.py", IMAGES: "imagepull.py"}
"""The programs that an admin installs for the agent, with their sources below ``router/host``."""


def openmpi_section() -> str:
    """The settings of the site's Open MPI: the nodes use the loopback interface, and pretend to have more cores.

    A containerised MPI gets its settings from a site's MPI profile instead of this file or a prolog.
    """
    return "oob_tcp_if_include = lo\nbtl_tcp_if_include = lo\nhwloc_base_binding_policy = none\n"


def hosts_section() -> str:
    """The lines of /etc/hosts: each host is the loopback, in a line of its own, whose first name is the full one."""
    return "".join(f"127.0.0.1 {host}\n" for host in HOSTS)


def configure(layout: Layout, variant: Variant) -> None:
    """Write all configuration; make users, keys and directories."""
    accounts.ensure()
    _directories(layout)
    files.set_section(Path("/etc/hosts"), hosts_section())
    key = layout.state / "munge" / "key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        shutil.chown(key, "munge", "munge")
    if variant.accounting:
        database.make(layout)
    _slurm(layout, variant)
    login.prepare(layout)
    _programs()
    if OPENMPI.parent.is_dir():
        files.set_section(OPENMPI, openmpi_section())


def _directories(layout: Layout) -> None:
    for path in (layout.state, layout.running, layout.shared, layout.work, layout.slow, layout.image.parent):
        files.directory(path)
    files.directory(layout.logs, owner="slurm")
    files.directory(layout.running / "munge", owner="munge")
    files.directory(layout.running / "slurm", owner="slurm")
    files.directory(layout.state / "munge", mode=0o700, owner="munge")
    files.directory(layout.state / "slurmctld", mode=0o700, owner="slurm")
    for node in NODES:
        files.directory(layout.state / "slurmd" / node)
        files.directory(daemons.node_tmp(layout, node), mode=0o1777)
    for name in USERS:
        files.directory(layout.work / name, mode=0o700, owner=name)


def _slurm(layout: Layout, variant: Variant) -> None:
    files.write(SLURM / "slurm.conf", slurmconf.slurm_conf(layout, variant))
    files.write(SLURM / "gres.conf", slurmconf.gres_conf(variant))
    files.write(SLURM / "cgroup.conf", slurmconf.cgroup_conf(variant))
    if variant.accounting:
        text = slurmconf.slurmdbd_conf(layout, database.password(layout))
        files.write(SLURM / "slurmdbd.conf", text, mode=0o600, owner="slurm")


def _programs() -> None:
    """Install the sudo rules, the operator's forced command, and the programs that an admin installs for the agent."""
    files.directory(HELPER.parent)
    for path, name in _INSTALLED.items():
        shutil.copyfile(SOURCE / "router" / "host" / name, path)
        path.chmod(0o755)
    LOOK.write_text(login.look_script())
    LOOK.chmod(0o755)
    commands.run(["visudo", "-c", "-f", "-"], stdin=accounts.sudoers())
    files.write(SUDOERS, accounts.sudoers(), mode=0o440)


def _gpus() -> None:
    """Make the GPU devices. They are gone after a restart of the machine, and a node starts only with its devices."""
    for number in range(GPUS):
        path = Path(f"/dev/nvidia{number}")
        if not path.exists():
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(GPU_MAJOR, number))
            path.chmod(0o666)


def real_gpus() -> bool:
    """Whether this machine has an NVIDIA driver of its own."""
    return Path("/proc/driver/nvidia").exists()


def start(layout: Layout, variant: Variant) -> list[str]:
    """Start the daemons that do not run, each after the one before it answers.

    :return: the names of the daemons that had to be started
    """
    _fuse()
    if variant.gpus:
        _gpus()
    started = []
    for daemon in daemons.daemons(layout, variant):
        if daemons.start(layout, daemon):
            started.append(daemon.name)
        _ready(layout, daemon)
    _nodes_up()
    login.mount(layout)
    return started


def _ready(layout: Layout, daemon: Daemon) -> None:
    log = f"see {layout.logs / daemon.name}.out"
    match daemon.name:
        case "munged":
            question = ["munge", f"--socket={layout.munge_socket}", "--no-input"]
            commands.wait(lambda: _succeeds(question), _SECONDS, lambda: f"munged does not answer; {log}")
        case "mariadbd":
            database.admit(layout)
        case "slurmdbd":
            database.fill(layout)
        case "slurmctld":
            commands.wait(
                lambda: "is UP" in commands.attempt(["scontrol", "ping"]).stdout,
                _SECONDS,
                lambda: f"slurmctld does not answer; {log}",
            )
        case "sshd":
            argv = ["ssh-keyscan", "-p", str(layout.ssh_port), "127.0.0.1"]
            commands.wait(lambda: bool(commands.attempt(argv).stdout), _SECONDS, lambda: f"sshd does not answer; {log}")
        case _:
            pass


def _succeeds(argv: list[str]) -> bool:
    return commands.attempt(argv).returncode == 0


def node_states() -> dict[str, str]:
    """Every node's state as sinfo shows it; empty if the controller does not answer."""
    done = commands.attempt(["timeout", "5", "sinfo", "-h", "-N", "-o", "%N %T"])
    return dict(line.split() for line in sorted(set(done.stdout.splitlines())))


def _nodes_up() -> None:
    def up() -> bool:
        states = node_states()
        down = [node for node, state in states.items() if state.rstrip("*~#!%$@^-") not in _UP]
        if down:
            # Marked down while the bed was off; a node that is not registered yet refuses, and is asked again.
            commands.attempt(["scontrol", "update", f"nodename={','.join(down)}", "state=resume"])
        return len(states) == len(NODES) and not down and not any("*" in state for state in states.values())

    commands.wait(up, _SECONDS, lambda: f"not all nodes are up: {node_states()}")


def _fuse() -> None:
    """Open /dev/fuse to ordinary users, who mount images and slow directories. Without udev it may be root's alone."""
    device = Path("/dev/fuse")
    if not device.exists():
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(10, 229))
    device.chmod(0o666)


def stop(layout: Layout) -> list[str]:
    """End all jobs, mounts and daemons, and remove Slurm's rest of the cgroup tree.

    :return: the names of the daemons that ran
    """
    if daemons.running(layout, daemons.controller()) and node_states():
        _cancel_jobs()
    login.unmount(layout)
    sessions = _sessions(layout)
    ended = [daemon.name for daemon in reversed(daemons.all_daemons(layout)) if daemons.stop(layout, daemon)]
    for pid in sessions:
        _signal(pid, signal.SIGTERM)
    _clear_cgroups()
    return ended


def _sessions(layout: Layout) -> list[int]:
    """The processes of every connection to sshd, with users' commands; they outlive the listening sshd."""
    listening = [daemon for daemon in daemons.all_daemons(layout) if daemon.name == "sshd"]
    return [child for daemon in listening for child in daemons.descendants(daemons.running(layout, daemon) or 0)]


def _signal(pid: int, kind: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, kind)


def _cancel_jobs() -> None:
    listing = ["timeout", "5", "squeue", "-h", "-o", "%A"]
    jobs = sorted(set(commands.attempt(listing).stdout.split()))
    if jobs:
        commands.attempt(["scancel", *jobs])
        commands.wait(lambda: not commands.attempt(listing).stdout.split(), _SECONDS, lambda: "jobs do not end")


def _clear_cgroups() -> None:
    for controller in Path("/sys/fs/cgroup").glob("*"):
        for node in NODES:
            top = controller / f"slurm_{node}"
            if top.is_dir():
                for path in sorted((path for path in (top, *top.rglob("*")) if path.is_dir()), reverse=True):
                    _remove(path)


def _remove(cgroup: Path) -> None:
    """Remove a job's cgroup; kills processes in it that have outlived their slurmd or controller."""

    def gone() -> bool:
        for pid in (cgroup / "cgroup.procs").read_text().split():
            _signal(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):  # busy until the last process has been reaped
            cgroup.rmdir()
        return not cgroup.exists()

    commands.wait(gone, _SECONDS, lambda: f"{cgroup} cannot be removed")


def clean(layout: Layout) -> None:
    """Remove files, users, devices and the state directory; the packages stay."""
    for path in files.GUARDED:
        if path.exists() and files.is_marked(path):
            path.unlink()
    for path in (SUDOERS, LOOK, *_INSTALLED):
        path.unlink(missing_ok=True)
    for path in (Path("/etc/hosts"), OPENMPI):
        if path.exists():
            files.set_section(path, "")
    if not real_gpus():
        for number in range(GPUS):
            Path(f"/dev/nvidia{number}").unlink(missing_ok=True)
    files.remove_munge_key(layout)
    accounts.remove()
    for directory in (layout.state, layout.shared, layout.launchers, layout.running):
        shutil.rmtree(directory, ignore_errors=True)
