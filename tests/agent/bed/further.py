"""The bed with more MPI: the images and launchers of ``python -m bed programs``, each pair a word in an image's name.

A Job's image ``LAUNCHER/IMAGE:1`` says what starts its ranks and what they run in; its command is the same for all.
"""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import Any

from bed import programs
from tests.agent.bed.site import LAYOUT, TALLY, BedSite
from tests.agent.bed.test_mpi import mpi

LOOPBACK = {"OMPI_MCA_btl_tcp_if_include": "lo"}
"""Where the nodes of the bed meet, which nobody has told the Open MPI of an image."""
YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""The bed has more slots than cores: a rank that waits lets another one work."""
PROFILES: list[dict[str, Any]] = [
    {"name": "open-mpi", "launcher": "openmpi", "images": ["mpirun/*"], "env": {**LOOPBACK, **YIELD}},
    {
        "name": "open-mpi-5",
        "launcher": "openmpi",
        "images": ["mpirun5/*"],
        "path": str(programs.launcher_of(LAYOUT, programs.PRRTE)),
        "env": {**LOOPBACK, **YIELD},
    },
    {
        "name": "mpich",
        "launcher": "hydra",
        "images": ["hydra/*"],
        "path": str(programs.launcher_of(LAYOUT, programs.HYDRA)),
    },
    {
        "name": "slurm-pmix",
        "launcher": "srun",
        "images": ["srun-pmix/*"],
        "options": ["--mpi=pmix"],
        # The shared-memory store of Debian's PMIx fails now and then under srun, in containers or not.
        "env": {"PMIX_MCA_gds": "hash", **LOOPBACK, **YIELD},
    },
    {"name": "slurm-pmi2", "launcher": "srun", "images": ["srun-pmi2/*"], "options": ["--mpi=pmi2"]},
    {"name": "slurm-plain", "launcher": "srun", "images": ["srun/*"]},
    {
        "name": "intel-mpi",
        "launcher": "intelmpi",
        "images": ["intel/*"],
        "path": str(programs.launcher_of(LAYOUT, programs.INTEL_HYDRA)),
    },
]
LAUNCHERS = {
    "mpirun of Open MPI 4.1.4": "mpirun",
    "mpirun of Open MPI 5.0.11": "mpirun5",
    "mpiexec of MPICH 5.0.2": "hydra",
    "mpiexec.hydra of Intel MPI 2021.15": "intel",
    "srun --mpi=pmix of Slurm 22.05": "srun-pmix",
    "srun --mpi=pmi2 of Slurm 22.05": "srun-pmi2",
    "srun of Slurm 22.05 without a PMI": "srun",
}
"""The launchers as docs/mpi.md calls them, and the word for each in an image's name."""
IMAGES = {
    "Open MPI 4.1.4": programs.OPENMPI.name,
    "Open MPI 5.0.7": programs.OPENMPI5.name,
    "Open MPI 5.0.11": programs.OPENMPI_UCX.name,
    "MPICH 4.0.2": programs.MPICH.name,
    "MPICH 4.2.1": programs.MPICH4.name,
    "MPICH 5.0.2": programs.MPICH_UCX.name,
    "Intel MPI 2021.15": programs.INTEL.name,
}
"""The images by the library that docs/mpi.md names."""
MEMORY = 300
"""Of each core, in MiB: the runtime, its image, an interpreter."""


@dataclass(frozen=True)
class FurtherSite(BedSite):
    """The bed with all launchers and images."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (site,) = found["sites.yaml"]["sites"]
        paths = {one.name: str(programs.path_of(LAYOUT, one)) for one in programs.IMAGES}
        site["images"] = [{"match": f"*/{name}:*", "path": path} for name, path in paths.items()]
        site["mpi"] = PROFILES
        return found


def obstacle() -> str:
    """Why tests with these images and launchers cannot be run here; empty where they can."""
    missing = programs.lacking(LAYOUT)
    return f"{missing[0]} is not there, or is an old one: `python -m bed programs` makes it" if missing else ""


def without_network() -> bool:
    """Whether this machine has the loopback interface only, which Open MPI 5 does not start its daemons over."""
    listed = subprocess.run(["ip", "-oneline", "-4", "address"], capture_output=True, text=True, check=True).stdout
    return {line.split()[1] for line in listed.splitlines()} <= {"lo"}


def job_of(launcher: str, image: str, *command: str, ranks: int, nodes: int, **env: str) -> dict[str, Any]:
    """A Job of one core a rank that runs ``mpirun -np RANKS COMMAND`` over these nodes, in a directory of its own.

    :param env: of its container
    """
    made = mpi(launcher, "mpirun", "-np", str(ranks), *command, cpus=ranks, nodes=nodes)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["image"] = f"{launcher}/{image}:1"
    container["resources"]["requests"]["memory"] = f"{ranks * MEMORY}Mi"
    container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    directory = TALLY / made["metadata"]["name"]
    directory.mkdir()
    directory.chmod(0o777)
    container["workingDir"] = str(directory)
    return made


def inside(made: dict[str, Any]) -> dict[str, Any]:
    """The same Job with its launcher in shell text, which reads the ranks' output from a pipe."""
    (container,) = made["spec"]["template"]["spec"]["containers"]
    ranks = container["command"][2]
    made["metadata"]["annotations"]["batchgate.dev/ranks"] = ranks
    container["command"] = ["/bin/sh", "-c", f"cd . && {shlex.join(container['command'])} | cat"]
    return made
