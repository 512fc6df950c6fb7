"""Where the bed keeps what, under which names and ports.

Pure: values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "Made by Batchgate's bed"
"""Stands in the first line of every file outside the state directory that the bed wrote, and in its users' comments."""

USERS: Final = ("hpc-ada", "hpc-ben")
"""The two people who run jobs."""
SERVICE: Final = "hpc-agent"
"""The account without rights: sudo lets it start the site helper as one of ``USERS``, and nothing else."""
OPERATOR: Final = "hpc-watch"
"""A Slurm operator, in the variant with accounting: sees everybody's jobs, and is used for nothing but looking."""

CONTROLLER: Final = "ctl1"
LOGIN: Final = "login1"
NODES: Final = ("node1", "node2", "node3", "node4")
HOSTS: Final = (CONTROLLER, LOGIN, *NODES)
CORES: Final = 4
"""Of each node, whatever the machine has."""
GPU_NODES: Final = NODES[2:]
GPUS: Final = 2
"""Of each of ``GPU_NODES``."""

GPU_MAJOR: Final = 195
"""NVIDIA's, as the kernel's list of devices says: what looks for GPUs by their device numbers finds these."""

HELPER: Final = Path("/usr/local/libexec/batchgate/sitehelper")
LOOK: Final = Path("/usr/local/libexec/batchgate/look")
SLURM: Final = Path("/etc/slurm")
SUDOERS: Final = Path("/etc/sudoers.d/batchgate-bed")
OPENMPI: Final = Path("/etc/openmpi/openmpi-mca-params.conf")
MUNGE_KEY: Final = Path("/etc/munge/munge.key")


@dataclass(frozen=True, slots=True)
class Layout:
    """One bed.

    :param state: what is kept between two beds: keys, image, job numbers, accounting data
    :param running: pid files and sockets
    :param shared: the site's file system: work directories, image
    :param launchers: where all nodes have further MPI launchers, below a directory each
    :param ssh_port: of the login node, on 127.0.0.1
    :param first_port: Slurm's controller, slurmdbd, MariaDB and the nodes' slurmd take this one and the 13 after it
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
        """Of slurmctld."""
        return self.first_port

    @property
    def accounting_port(self) -> int:
        """Of slurmdbd."""
        return self.first_port + 1

    @property
    def database_port(self) -> int:
        """Of MariaDB."""
        return self.first_port + 2

    def node_port(self, node: str) -> int:
        """Of a node's slurmd."""
        return self.first_port + 10 + NODES.index(node)

    @property
    def logs(self) -> Path:
        """One file a daemon, and what apt and the image's build said."""
        return self.state / "log"

    @property
    def keys(self) -> Path:
        """The agent's private keys, one a user, named as the user."""
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
        """One directory a user, on the file system itself."""
        return self.shared / "work"

    @property
    def slow(self) -> Path:
        """The same directories as the login node sees them through a slow network file system; on nodes: themselves."""
        return self.shared / "slow"

    @property
    def munge_socket(self) -> Path:
        """Of the bed's own munged: the machine's, if there is one, stays as it is."""
        return self.running / "munge" / "socket"

    @property
    def database_socket(self) -> Path:
        """Where root reaches MariaDB."""
        return self.running / "slurm" / "mariadb.sock"

    def pid_file(self, daemon: str) -> Path:
        """Written by whoever starts the daemon; a slurmd's has its node's name."""
        return self.running / f"{daemon}.pid"

    def own_pid_file(self, daemon: str) -> Path:
        """Written by a Slurm daemon itself."""
        return self.running / "slurm" / f"{daemon}.pid"


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs between two beds.

    :param accounting: with slurmdbd and MariaDB
    :param cgroups: Slurm holds jobs to their memory and devices through cgroup v1 controllers
    :param gpus: nodes 3 and 4 have GPUs
    """

    accounting: bool = True
    cgroups: bool = True
    gpus: bool = True
