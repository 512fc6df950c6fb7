"""The bed with more MPI: the images and launchers of ``python -m bed programs``, each pair a word in an image's name.

A Job's image ``LAUNCHER/IMAGE:1`` says what starts its ranks and what they run in; its command is the same for all.
"""

from __future__ import annotations

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
]
LAUNCHERS = ("mpirun", "mpirun5", "hydra", "srun-pmix", "srun-pmi2")
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
