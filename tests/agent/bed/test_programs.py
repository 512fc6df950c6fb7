"""MPI programs that others wrote, each the command of an ordinary Job, over two nodes and more.

HPC Challenge, NetPIPE, mpi4py's benchmarks and mpi4py's tests, with mpirun, with Hydra and with srun.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bed.layout import NODES
from tests.agent.bed import further
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, exit_code, printed
from tests.agent.bed.site import SUDO, TALLY
from tests.agent.bed.tally import await_ends

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1800)]

OPENMPI = (("mpirun", "openmpi4"), ("srun-pmix", "openmpi4"))
"""What starts the ranks of the programs that Debian builds with Open MPI."""
NETPIPE = {
    ("mpirun", "openmpi4"): "NPopenmpi",
    ("srun-pmix", "openmpi4"): "NPopenmpi",
    ("hydra", "mpich"): "NPmpich2",
    ("srun-pmi2", "mpich"): "NPmpich2",
}
MODULES = ("cco_obj", "comm", "group", "msgspec", "p2p_obj", "p2p_obj_matched", "pack", "request", "status")
TESTS = "/usr/local/share/mpi4py-3.1.4/test/runtests.py"
TRANSPORTS = {"openmpi4": ("OMPI_MCA_btl", "self", "vader"), "mpich": ("UCX_TLS", "self", "sysv")}
"""The variable that says what ranks may talk through, and its words for a rank itself and for shared memory.

UCX has another one for shared memory, posix, which asks for one user namespace; each container has its own.
"""


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    if words := further.obstacle():
        pytest.skip(words)
    with reached(cluster, SUDO, kind=further.FurtherSite) as found:
        yield found


def ended(stack: Stack, name: str) -> str:
    """How a Job ends; these take longer than others."""
    return await_ends(stack.ada, [name], seconds=3 * SECONDS)[name]


@pytest.mark.parametrize("pair", OPENMPI, ids="-".join)
def test_hpc_challenge(stack: Stack, pair: tuple[str, str]) -> None:
    made = further.job_of(*pair, "hpcc", ranks=4, nodes=2)
    directory = TALLY / made["metadata"]["name"]
    shutil.copy(Path(__file__).with_name("hpccinf.txt"), directory)

    name = apply(stack.ada, made)

    assert ended(stack, name) == "Complete", printed(stack.ada, name)
    report = (directory / "hpccoutf.txt").read_text()
    figures = dict(line.split("=", 1) for line in report.splitlines() if re.match(r"\w+=", line))
    assert {key: figures.get(key) for key in ("CommWorldProcs", "HPL_N", "Success")} == {
        "CommWorldProcs": "4",
        "HPL_N": "600",
        "Success": "1",
    }
    assert re.search(r"^ *0 tests completed and failed residual checks", report, re.MULTILINE)
    assert "End of HPC Challenge tests." in report


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("pair", NETPIPE, ids="-".join)
def test_netpipe(stack: Stack, pair: tuple[str, str], nodes: int) -> None:
    made = further.job_of(*pair, NETPIPE[pair], "-n", "5", "-u", "16384", ranks=2, nodes=nodes)
    directory = TALLY / made["metadata"]["name"]

    name = apply(stack.ada, made)

    assert ended(stack, name) == "Complete", printed(stack.ada, name)
    figures = [line.split() for line in (directory / "np.out").read_text().splitlines()]
    assert figures[0][0] == "1"
    assert int(figures[-1][0]) > 16384
    assert all(float(rate) > 0 for _, rate, _ in figures)


@pytest.mark.parametrize("pair", NETPIPE, ids="-".join)
def test_ranks_of_one_node_talk_through_shared_memory(stack: Stack, pair: tuple[str, str]) -> None:
    variable, itself, shared = TRANSPORTS[pair[1]]
    words = (NETPIPE[pair], "-n", "5", "-u", "16384")
    names = [
        apply(stack.ada, further.job_of(*pair, *words, ranks=2, nodes=1, **{variable: allowed}))
        for allowed in (f"{itself},{shared}", itself)
    ]

    ends = await_ends(stack.ada, names, seconds=3 * SECONDS)

    assert [ends[name] for name in names] == ["Complete", "Failed"], [printed(stack.ada, name) for name in names]
    assert exit_code(stack.ada, names[1]) != 0


@pytest.mark.parametrize("pair", OPENMPI, ids="-".join)
def test_the_benchmarks_of_mpi4py(stack: Stack, pair: tuple[str, str]) -> None:
    hello = further.job_of(*pair, "python3", "-m", "mpi4py.bench", "helloworld", ranks=8, nodes=4)
    ring = further.job_of(*pair, "python3", "-m", "mpi4py.bench", "ringtest", "-n", "1000", "-l", "5", ranks=4, nodes=2)
    names = [apply(stack.ada, made) for made in (hello, ring)]

    ends = await_ends(stack.ada, names, seconds=3 * SECONDS)

    assert ends == dict.fromkeys(names, "Complete"), [printed(stack.ada, name) for name in names]
    assert sorted(printed(stack.ada, names[0])) == [
        f"Hello, World! I am process {rank} of 8 on {NODES[rank // 2]}." for rank in range(8)
    ]
    (line,) = printed(stack.ada, names[1])
    assert re.fullmatch(r"time for 5 loops = \S+ seconds \(4 processes, 1000 bytes\)", line)


@pytest.mark.parametrize("pair", OPENMPI, ids="-".join)
def test_the_tests_of_mpi4py(stack: Stack, pair: tuple[str, str]) -> None:
    modules = f"^test_({'|'.join(MODULES)})$"

    name = apply(stack.ada, further.job_of(*pair, "python3", TESTS, "--quiet", "-i", modules, ranks=4, nodes=2))

    assert ended(stack, name) == "Complete", printed(stack.ada, name)
    said = "\n".join(printed(stack.ada, name))
    assert len(re.findall(r"^Ran [1-9]\d\d+ tests? in", said, re.MULTILINE)) == 4
    assert len(re.findall(r"^OK", said, re.MULTILINE)) == 4
