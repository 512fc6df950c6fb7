"""Every launcher with every image it can talk to, of the tables in docs/mpi.md: each rank knows its place among all.

Launchers are a Job's whole command, and stand in shell text. Transports are those that the tables name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bed.layout import NODES
from tests.agent.bed import further
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, printed
from tests.agent.bed.site import SUDO
from tests.agent.bed.tally import await_ends
from tests.agent.bed.test_mpi import NEVER, await_nothing_left, fields
from tests.test_mpi_page import RAN, TRANSPORTS, Transport

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1800)]

PAIRS = [
    (further.LAUNCHERS[launcher], further.IMAGES[library])
    for (launcher, library), word in RAN.items()
    if word == "runs"
]
LIFTED, INSIDE = "whole command", "in shell text"
STARTERS = {"Open MPI": "mpirun", "MPICH": "hydra", "Intel MPI": "intel"}
"""What starts the ranks of a library, to look at its transports."""

LINES, LENGTH = 300, 1000
"""What each rank prints to see whether its lines stay whole."""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    if words := further.obstacle():
        pytest.skip(words)
    with reached(cluster, SUDO, kind=further.FurtherSite) as found:
        yield found


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[tuple[str, str, str], str]:
    """The two Jobs of each pair, when all are over."""
    made = {}
    for launcher, image in PAIRS:
        if launcher != "mpirun5" or not further.without_network():
            lifted, inside = (further.job_of(launcher, image, "ring", ranks=8, nodes=4) for _ in range(2))
            made[launcher, image, LIFTED] = apply(stack.ada, lifted)
            made[launcher, image, INSIDE] = apply(stack.ada, further.inside(inside))
    await_ends(stack.ada, list(made.values()), seconds=len(made) * SECONDS)
    return made


@pytest.mark.parametrize("place", [LIFTED, INSIDE])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_ranks_find_each_other(
    stack: Stack, over: dict[tuple[str, str, str], str], pair: tuple[str, str], place: str
) -> None:
    if (*pair, place) not in over:
        pytest.skip("Open MPI 5 needs an interface beside the loopback one that is up")
    name = over[*pair, place]

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    # Hydra starts its proxies by srun, which warns that there is one a node and not as many as ranks.
    found = [fields(line) for line in printed(stack.ada, name) if not line.startswith("srun: Warning")]
    nodes = Counter(rank.pop("node") for rank in found)
    assert sorted(found, key=lambda rank: rank["rank"]) == [
        {"rank": str(rank), "size": "8", "sum": "36", "from": str((rank - 1) % 8), "container": "yes"}
        for rank in range(8)
    ]
    assert nodes == dict.fromkeys(NODES, 2)


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda one: f"{one.library} {' '.join(one.variables)}")
def test_messages_arrive_whole_by_the_transport_that_variables_choose(stack: Stack, transport: Transport) -> None:
    launcher = STARTERS[transport.library.rpartition(" ")[0]]
    image = further.IMAGES[transport.library]
    made = further.job_of(launcher, image, "messages", ranks=4, nodes=transport.nodes, **transport.variables)

    name = apply(stack.ada, made)

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    said = printed(stack.ada, name)
    ranks = [fields(line) for line in said if line.startswith("rank=")]
    assert sorted((one["rank"], one["size"], one["wrong"]) for one in ranks) == [
        (str(rank), "4", "0") for rank in range(4)
    ]
    assert len({one["node"] for one in ranks}) == transport.nodes
    assert any(transport.says in line for line in said), said


@pytest.mark.parametrize("pair", [("mpirun5", "openmpi5"), ("hydra", "mpich"), ("srun-pmi2", "mpich")], ids="-".join)
def test_a_rank_that_fails_ends_the_job_with_its_code(stack: Stack, pair: tuple[str, str]) -> None:
    words = ("ranks", "-w", NEVER, "-f", "5", "-s", "9")

    name = apply(stack.ada, further.job_of(*pair, *words, ranks=8, nodes=4))

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 9
    await_nothing_left(name)


# Open MPI's mpirun reads up to 4096 bytes of a rank at a time, and cuts lines there with no script around it.
@pytest.mark.parametrize("pair", [("srun-pmix", "openmpi4"), ("hydra", "mpich")], ids="-".join)
def test_no_line_of_a_rank_is_cut_by_another_s(stack: Stack, pair: tuple[str, str]) -> None:
    words = f'"%s %s %0{LENGTH}d\\n" "${{PMIX_RANK:-$PMI_RANK}}" "$line" 0'
    text = f"for line in `seq {LINES}`; do printf {words}; done"

    name = apply(stack.ada, further.job_of(*pair, "sh", "-c", text, ranks=4, nodes=2))

    assert end_of(stack.ada, name) == "Complete"
    found = [
        line.removesuffix("0" * LENGTH) for line in printed(stack.ada, name) if not line.startswith("srun: Warning")
    ]
    assert sorted(found) == sorted(f"{rank} {line} " for rank in range(4) for line in range(1, LINES + 1))
