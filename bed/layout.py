"""Defines the bed's paths, names and ports.

Pure: values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "Made by Batchgate's bed"
"""A mark in the first line of each file that the bed wrote outside the state directory, and in its users' comments."""

USERS: Final = ("hpc-ada", "hpc-ben")
"""The two people who run jobs."""
SERVICE: Final = "hpc-agent"
"""The agent's account: sudo lets it start the site helper as one of ``USERS``, and look as the operator."""
OPERATOR: Final = "hpc-watch"
"""A Slurm operator, in the variant with accounting: sees all users' jobs, and is used only for looking."""

CONTROLLER: Final = "ctl1"
LOGIN: Final = "login1"
NODES: Final = ("node1", "node2", "node3", "node4")
HOSTS: Final = (CONTROLLER, LOGIN, *NODES)
CORES: Final = 4
"""Cores of each node, independent of the machine's, if nothing else is asked for."""
GPU_NODES: Final = NODES[2:]
GPUS: Final = 2
"""GPUs of each of ``GPU_NODES``."""

GPU_MAJOR: Final = 195
"""NVIDIA's major number in the kernel's list of devices, by which programs find GPUs."""

HELPER: Final = Path("/usr/local/libexec/batchgate/sitehelper")
IMAGES: Final = Path("/usr/local/libexec/batchgate/imagepull")
LOOK: Final = Path("/usr/local/libexec/batchgate/look")
SLURM: Final = Path("/etc/slurm")
SUDOERS: Final = Path("/etc/sudoers.d/batchgate-bed")
OPENMPI: Final = Path("/etc/openmpi/openmpi-mca-params.conf")
MUNGE_KEY: Final = Path("/etc/munge/munge.key")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths, ports and settings of one bed.

    :param state: the state that outlives a bed: keys, job numbers, accounting data
    :param running: pid files and sockets
    :param shared: the site's file system: work directories, image
    :param launchers: all nodes' further MPI launchers, in one directory each
    :param ssh_port: the login node's port, on 127.0.0.1
    :param first_port: the first of 14 ports of Slurm's controller, slurmdbd, MariaDB and the nodes' slurmd
    :param keep: seconds that Slurm remembers an ended job (MinJobAge)
    """

    state: Path = Path("/var/lib/batchgate-bed")
    running: Path = Path("/run/batchgate-bed")
    shared: Path = Path("/srv/batchgate-bed")
    launchers: Path = Path("/opt/batchgate-bed")
    ssh_port: int = 2222
    first_port: int = 16800
    keep: int = 300

    @property
    def controller_port(self) -> int:
        """The port of slurmctld."""
        return self.first_port

    @property
    def accounting_port(self) -> int:
        """The port of slurmdbd."""
        return self.first_port + 1

    @property
    def database_port(self) -> int:
        """The port of MariaDB."""
        return self.first_port + 2

    def node_port(self, node: str) -> int:
        """The port of a node's slurmd."""
        return self.first_port + 10 + NODES.index(node)

    @property
    def logs(self) -> Path:
        """The logs: one file for each daemon, and the output of apt."""
        return self.state / "log"

    @property
    def keys(self) -> Path:
        """The agent's private keys, one for each user, named like the user."""
        return self.state / "keys"

    @property
    def ssh(self) -> Path:
        """The login node's host key and configuration, ``known_hosts``, and the user CA."""
        return self.state / "ssh"

    @property
    def image(self) -> Path:
        """The small SIF."""
        return self.shared / "images" / "bed.sif"

    @property
    def work(self) -> Path:
        """The work directories, one for each user, on the file system itself."""
        return self.shared / "work"

    @property
    def slow(self) -> Path:
        """The work directories, which the login node sees here through a slow network file system, nodes directly."""
        return self.shared / "slow"

    @property
    def munge_socket(self) -> Path:
        """The socket of the bed's own munged; a munged of the machine is left alone."""
        return self.running / "munge" / "socket"

    @property
    def database_socket(self) -> Path:
        """The socket where root reaches MariaDB."""
        return self.running / "slurm" / "mariadb.sock"

    def pid_file(self, daemon: str) -> Path:
        """The pid file that the bed writes when it starts the daemon; a slurmd's has its node's name."""
        return self.running / f"{daemon}.pid"

    def own_pid_file(self, daemon: str) -> Path:
        """The pid file that a Slurm daemon writes itself."""
        return self.running / "slurm" / f"{daemon}.pid"


@dataclass(frozen=True, slots=True)
class Variant:
    """The options in which beds differ.

    :param accounting: whether slurmdbd and MariaDB run
    :param cgroups: whether Slurm holds jobs to their memory and devices through cgroup v1 controllers
    :param gpus: whether nodes 3 and 4 have GPUs
    :param cores: of each node
    """

    accounting: bool = True
    cgroups: bool = True
    gpus: bool = True
    cores: int = CORES
