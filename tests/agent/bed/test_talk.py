"""What users are told where launcher and image cannot talk, by real launchers and images: within seconds, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.agent.bed import further
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, pod_of, printed
from tests.agent.bed.site import SUDO
from tests.agent.bed.tally import await_ends
from tests.agent.bed.test_mpi import mpi
from tests.agent.whole.waiting import until
from tests.test_mpi_page import RAN

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1200)]

SAID = {
    "mpiexec of MPICH 5.0.2": r"mpiexec of Hydra 5\.0\.2",
    "srun --mpi=pmix of Slurm 22.05": r"srun --mpi=pmix of Slurm 22\.05\.8",
    "srun --mpi=pmi2 of Slurm 22.05": r"srun --mpi=pmi2 of Slurm 22\.05\.8",
    "srun of Slurm 22.05 without a PMI": r"srun --mpi=none of Slurm 22\.05\.8",
    "Intel MPI 2021.15": "Intel MPI",
}
"""What the sentence calls those that docs/mpi.md calls otherwise."""
BAD = {
    (further.LAUNCHERS[launcher], further.IMAGES[library]): (
        SAID.get(launcher, re.escape(launcher)),
        SAID.get(library, re.escape(library)),
    )
    for (launcher, library), word in RAN.items()
    if word == "told"
}
"""What the sentence calls launcher and library. Each of these pairs hangs, dies in MPI_Init or runs N ranks of size 1."""
LONGEST = 10
"""Seconds that a bad pair may take from its start to its end, on a machine that does other things as well."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    if words := further.obstacle():
        pytest.skip(words)
    with reached(cluster, SUDO, kind=further.FurtherSite) as found:
        yield found


def of_pair(launcher: str, image: str, *command: str) -> dict[str, Any]:
    """A Job of four ranks on two nodes."""
    made = mpi(launcher, "mpirun", "-np", "4", *command, cpus=4, nodes=2)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = f"{launcher}/{image}:1"
    return made


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[tuple[str, str], str]:
    """The Job of each bad pair, when all are over."""
    made = {pair: apply(stack.ada, of_pair(*pair, "ring")) for pair in BAD}
    await_ends(stack.ada, list(made.values()), seconds=len(made) * SECONDS)
    return made


@pytest.mark.parametrize("pair", BAD, ids="-".join)
def test_a_bad_pair_is_one_sentence_within_seconds(
    stack: Stack, over: dict[tuple[str, str], str], pair: tuple[str, str]
) -> None:
    name, (launcher, library) = over[pair], BAD[pair]

    assert (end_of(stack.ada, name), exit_code(stack.ada, name)) == ("Failed", 126)
    (line,) = printed(stack.ada, name)
    assert re.fullmatch(
        rf"batchgate: {launcher} on node\d cannot start ranks of {library}, which the program in \S+\.sif uses: "
        r"(use an image with|give the MPI profile the option) .+",
        line,
    )
    times = pod_of(stack.ada, name)["status"]["containerStatuses"][0]["state"]["terminated"]
    began, ended = (datetime.fromisoformat(times[which]) for which in ("startedAt", "finishedAt"))
    assert (ended - began).total_seconds() <= LONGEST


@pytest.mark.parametrize("launcher", ["mpirun", "srun-pmix"])
def test_programs_without_mpi_run_in_any_image(stack: Stack, launcher: str) -> None:
    name = apply(stack.ada, of_pair(launcher, "mpich", "cat", "/etc/debian_version"))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    assert len(printed(stack.ada, name)) == 4


def test_what_is_not_known_runs_and_is_told(stack: Stack) -> None:
    """A shell whose text names no program of the image that links MPI, where the image's MPI would be a bad one."""
    made = of_pair("mpirun", "mpich", "sh", "-c", "echo ran")
    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Complete"
    first, *others = printed(stack.ada, name)
    assert first.startswith("batchgate: it is not known whether mpirun of Open MPI 4.1.4 on node")
    assert first.endswith(" has MPICH 4.0.2")
    assert others == ["ran"] * 4
    uid = pod_of(stack.ada, name)["metadata"]["uid"]
    until(
        lambda: [event["reason"] for event in stack.ada.every("events") if event["involvedObject"].get("uid") == uid],
        lambda reasons: "MPIUnknown" in reasons,
        what="for the Event",
    )
