"""How Workloads lie on queues: the rules on size and time, case by case, and what holds for every case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc.requests import Allocation, Chunk
from router.site.allocation import allocate
from router.site.schema import Defaults, LauncherKind, MpiProfile, Queue, Site
from router.site.systems import SYSTEMS
from router.workload.model import Container, ContainerKind, Figure, GpuVendor, Workload

GI = 1024**3
SPANS = (
    "only MPI programs span nodes: the hint batchgate.dev/ranks, impliesMpi of the MPI profile or mpi: true of the rule "
    "says that it is one"
)
MAIN = Container("main", ContainerKind.MAIN, "spec.template.spec.containers[0]", "image")
FIGURES = ("cpu", "memory", "gpus", "ranks", "ranks_per_node", "nodes", "cores_per_rank", "walltime_asked")


def workload(
    *, mpi: bool = False, grace: int = 30, containers: tuple[Container, ...] = (MAIN,), **figures: Any
) -> Workload:
    """A Workload with these figures; CPU is in cores here."""
    if figures.get("cpu") is not None:
        figures["cpu"] = round(figures["cpu"] * 1000)
    vendor = figures.pop("vendor", None)
    at_least = figures.pop("nodes_at_least", False)
    known = {name: Figure(value, f"the {name}") for name, value in figures.items() if value is not None}
    return Workload(
        mpi_hinted=mpi,
        namespace="lab",
        name="a-job",
        labels={},
        containers=containers,
        volumes=(),
        parallelism=Figure(1, "default"),
        completions=Figure(1, "default"),
        indexed=False,
        suspended=False,
        restart_policy="Never",
        grace=grace,
        mpi="main" if mpi else "",
        gpu_vendor=vendor,
        nodes_at_least=at_least,
        **known,  # type: ignore[arg-type]  # the names are those of FIGURES
    )


def queue(**fields: Any) -> Queue:
    return Queue(**({"name": "workq", "nodes": 4, "cpus_per_node": 8, "memory_per_node": 32 * GI} | fields))


def site(system: str = "openpbs", **fields: Any) -> Site:
    return Site(name="cluster", system=system, work_dir="/scratch/{user}", queues=(queue(),), **fields)


def lay(work: Workload, on: Queue | None = None, at: Site | None = None, **others: Any) -> Allocation | str:
    given_: dict[str, Any] = {"profile": None, "defaults": Defaults(), "max_nodes": None, "max_walltime": None} | others
    return allocate(work, at or site(), on or queue(), **given_)


def chunks(found: Allocation | str) -> tuple[Chunk, ...] | str:
    return found if isinstance(found, str) else found.chunks


GPU_QUEUE = queue(gpus_per_node=4)

SIZES = [
    # count, ranks, ncpus, ompthreads, memory, gpus
    ("nothing asked for: one core", workload(), None, (Chunk(1, 1, 1, 1, None, 0),)),
    ("0 CPUs: one core, for 0 is no size", workload(cpu=0), None, (Chunk(1, 1, 1, 1, None, 0),)),
    ("0 bytes are left to the queue", workload(memory=0), None, (Chunk(1, 1, 1, 1, None, 0),)),
    ("a fraction is a whole core", workload(cpu=0.5), None, (Chunk(1, 1, 1, 1, None, 0),)),
    ("2.1 are 3 cores", workload(cpu=2.1), None, (Chunk(1, 1, 3, 3, None, 0),)),
    ("a whole node", workload(cpu=8, memory=32 * GI), None, (Chunk(1, 1, 8, 8, 32 * GI, 0),)),
    (
        "no MPI: never two nodes",
        workload(cpu=8.001),
        None,
        f"asks for 9 CPUs, and a node has 8; {SPANS}",
    ),
    ("no MPI: memory of one node", workload(memory=33 * GI), None, "asks for 33Gi of memory; a node has 32Gi"),
    (
        "memory of nodes is not known: not judged",
        workload(memory=900 * GI),
        queue(memory_per_node=None),
        (Chunk(1, 1, 1, 1, 900 * GI, 0),),
    ),
    ("GPUs of one node", workload(gpus=4), GPU_QUEUE, (Chunk(1, 1, 1, 1, None, 4),)),
    ("more GPUs than a node has", workload(gpus=5), GPU_QUEUE, "asks for 5 GPUs; a node has 4 (asked for: the gpus)"),
    ("0 GPUs go anywhere", workload(gpus=0), None, (Chunk(1, 1, 1, 1, None, 0),)),
    ("a queue without GPUs", workload(gpus=1), None, "asks for 1 GPU; a node has 0 (asked for: the gpus)"),
    (
        "GPUs of another vendor",
        workload(gpus=1, vendor=GpuVendor.AMD),
        queue(gpus_per_node=4, gpu_vendor=GpuVendor.NVIDIA),
        "asks for GPUs of amd, and the queue has those of nvidia",
    ),
    ("MPI on one node", workload(mpi=True, ranks=8, cpu=8), None, (Chunk(1, 8, 8, 1, None, 0),)),
    ("MPI over two nodes", workload(mpi=True, ranks=16, cpu=16), None, (Chunk(2, 8, 8, 1, None, 0),)),
    (
        "10 ranks on nodes of 8 are 5 + 5",
        workload(mpi=True, ranks=10, cpu=10),
        None,
        (Chunk(2, 5, 5, 1, None, 0),),
    ),
    (
        "the remainder comes first: 17 are 6 + 6 + 5",
        workload(mpi=True, ranks=17, cpu=17),
        None,
        (Chunk(2, 6, 6, 1, None, 0), Chunk(1, 5, 5, 1, None, 0)),
    ),
    (
        "cores per rank: CPUs over ranks, rounded down",
        workload(mpi=True, ranks=4, cpu=11),
        None,
        (Chunk(1, 4, 8, 2, None, 0),),
    ),
    ("at least one core per rank", workload(mpi=True, ranks=4, cpu=1), None, (Chunk(1, 4, 4, 1, None, 0),)),
    ("no CPUs asked for: one core per rank", workload(mpi=True, ranks=4), None, (Chunk(1, 4, 4, 1, None, 0),)),
    (
        "threads: 4 ranks of 4 cores take two nodes",
        workload(mpi=True, ranks=4, cpu=16),
        None,
        (Chunk(2, 2, 8, 4, None, 0),),
    ),
    (
        "a node holds whole ranks only: of 3 cores, two on 8",
        workload(mpi=True, ranks=6, cpu=18),
        None,
        (Chunk(3, 2, 6, 3, None, 0),),
    ),
    (
        "cores per rank as the launcher says",
        workload(mpi=True, ranks=4, cores_per_rank=4, cpu=4),
        None,
        (Chunk(2, 2, 8, 4, None, 0),),
    ),
    (
        "a rank larger than a node",
        workload(mpi=True, ranks=2, cpu=18),
        None,
        "needs 9 cores for each rank; a node has 8",
    ),
    (
        "more nodes than the queue has",
        workload(mpi=True, ranks=40, cpu=40),
        None,
        "needs 5 nodes for 40 ranks of 1 core; it may have 4 (asked for: the ranks)",
    ),
    (
        "memory is shared out by ranks, rounded up",
        workload(mpi=True, ranks=3, memory=10),
        queue(cpus_per_node=2),
        (Chunk(1, 2, 2, 1, 7, 0), Chunk(1, 1, 1, 1, 4, 0)),
    ),
    (
        "memory alone asks for more nodes",
        workload(mpi=True, ranks=4, cpu=4, memory=100 * GI),
        None,
        (Chunk(4, 1, 1, 1, 25 * GI, 0),),
    ),
    (
        "a rank's memory is more than a node's",
        workload(mpi=True, ranks=2, memory=80 * GI),
        None,
        "needs 40Gi of memory for each rank; a node has 32Gi",
    ),
    (
        "nodes as asked for",
        workload(mpi=True, ranks=8, nodes=4, cpu=8),
        None,
        (Chunk(4, 2, 2, 1, None, 0),),
    ),
    (
        "too few nodes asked for",
        workload(mpi=True, ranks=16, nodes=1, cpu=16),
        None,
        "puts 16 ranks of 1 core on a node, 16 in all; a node has 8 (asked for: the ranks, the nodes)",
    ),
    (
        "more nodes asked for than there are",
        workload(mpi=True, ranks=8, nodes=5),
        None,
        "needs 5 nodes for 8 ranks of 1 core; it may have 4 (asked for: the ranks, the nodes)",
    ),
    (
        "more nodes asked for than ranks",
        workload(mpi=True, ranks=2, nodes=3),
        None,
        "asks for 3 nodes for 2 ranks; each node needs a rank",
    ),
    (
        "ranks per node as asked for, the rest on the last",
        workload(mpi=True, ranks=10, ranks_per_node=4),
        None,
        (Chunk(2, 4, 4, 1, None, 0), Chunk(1, 2, 2, 1, None, 0)),
    ),
    (
        "ranks per node without a number of ranks: one node",
        workload(mpi=True, ranks_per_node=4),
        None,
        (Chunk(1, 4, 4, 1, None, 0),),
    ),
    (
        "ranks per node that a node cannot hold",
        workload(mpi=True, ranks=16, ranks_per_node=16),
        None,
        "puts 16 ranks of 1 core on a node, 16 in all; a node has 8 (asked for: the ranks_per_node)",
    ),
    (
        "ranks per node with too much memory",
        workload(mpi=True, ranks=4, ranks_per_node=4, memory=64 * GI),
        None,
        "puts 4 ranks with 64Gi of memory on a node; a node has 32Gi (asked for: the ranks_per_node)",
    ),
    (
        "nodes and ranks per node that hold too few",
        workload(mpi=True, ranks=10, nodes=2, ranks_per_node=4),
        None,
        "asks for 10 ranks, and 2 nodes with 4 ranks each hold 8",
    ),
    ("no number of ranks: one for each core", workload(mpi=True, cpu=16), None, (Chunk(2, 8, 8, 1, None, 0),)),
    ("no number of anything: one rank", workload(mpi=True), None, (Chunk(1, 1, 1, 1, None, 0),)),
    (
        "no number of ranks, cores per rank given",
        workload(mpi=True, cpu=16, cores_per_rank=4),
        None,
        (Chunk(2, 2, 8, 4, None, 0),),
    ),
    (
        "GPUs are shared by the nodes",
        workload(mpi=True, ranks=16, cpu=16, gpus=8),
        GPU_QUEUE,
        (Chunk(2, 8, 8, 1, None, 4),),
    ),
    (
        "GPUs alone ask for more nodes",
        workload(mpi=True, ranks=6, cpu=6, gpus=6),
        GPU_QUEUE,
        (Chunk(2, 3, 3, 1, None, 3),),
    ),
    (
        "more nodes, so that GPUs divide",
        workload(mpi=True, ranks=18, cpu=18, gpus=8),
        GPU_QUEUE,
        (Chunk(2, 5, 5, 1, None, 2), Chunk(2, 4, 4, 1, None, 2)),
    ),
    (
        "GPUs that no number of nodes divides",
        workload(mpi=True, ranks=8, cpu=8, gpus=7),
        GPU_QUEUE,
        "asks for 7 GPUs on 1 node to 4, which must share them evenly; a node has 4 (asked for: the gpus, the ranks)",
    ),
    (
        "GPUs that the nodes asked for do not divide",
        workload(mpi=True, ranks=8, nodes=3, gpus=4),
        GPU_QUEUE,
        "asks for 4 GPUs on 3 nodes, which must share them evenly; a node has 4 (asked for: the gpus, the ranks, the nodes)",
    ),
]

BOUND = MpiProfile(name="bound", launcher=LauncherKind.SRUN, gpus="rank")
SHARES = [
    ("one each", {"ranks": 4, "gpus": 4}, (Chunk(1, 4, 4, 1, None, 4),)),
    ("two each", {"ranks": 2, "gpus": 4}, (Chunk(1, 2, 2, 1, None, 4),)),
    ("two ranks to a GPU", {"ranks": 4, "gpus": 2}, (Chunk(1, 4, 4, 1, None, 2),)),
    ("one for all, on two nodes of 5 and 4", {"ranks": 9, "gpus": 2}, (Chunk(1, 5, 5, 1, None, 1), Chunk(1, 4, 4, 1, None, 1))),
    ("6 ranks and 4 GPUs: a GPU on each of 4 nodes", {"ranks": 6, "gpus": 4}, (Chunk(2, 2, 2, 1, None, 1), Chunk(2, 1, 1, 1, None, 1))),
    ("3 and 3, as 2 GPUs for 5 and 1 are not even", {"ranks": 6, "gpus": 6}, (Chunk(2, 3, 3, 1, None, 3),)),
    ("no GPUs: nothing to share", {"ranks": 5, "nodes": 2}, (Chunk(1, 3, 3, 1, None, 0), Chunk(1, 2, 2, 1, None, 0))),
    (
        "3 ranks and 2 GPUs on one node",
        {"ranks": 3, "gpus": 2, "nodes": 1},
        "asks for 2 GPUs on 1 node, which must share them evenly, as must the ranks of each; a node has 4 (asked for: the gpus, the ranks, the nodes)",
    ),
    (
        "5 ranks and 4 GPUs on two nodes",
        {"ranks": 5, "gpus": 4, "nodes": 2},
        "asks for 4 GPUs on 2 nodes, which must share them evenly, as must the ranks of each; a node has 4 (asked for: the gpus, the ranks, the nodes)",
    ),
    (
        "no number of nodes",
        {"ranks": 6, "gpus": 8},
        "asks for 8 GPUs on 1 node to 4, which must share them evenly, as must the ranks of each; a node has 4 (asked for: the gpus, the ranks)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "expected"), [row[1:] for row in SHARES], ids=[row[0] for row in SHARES])
def test_where_gpus_are_bound_to_ranks_every_rank_has_the_same(
    asked: dict[str, Any], expected: tuple[Chunk, ...] | str
) -> None:
    assert chunks(lay(workload(mpi=True, cpu=asked["ranks"], **asked), GPU_QUEUE, profile=BOUND)) == expected


@pytest.mark.parametrize(("work", "on", "expected"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
def test_a_workload_lies_on_a_queue(work: Workload, on: Queue | None, expected: tuple[Chunk, ...] | str):
    assert chunks(lay(work, on)) == expected


def test_the_table_is_as_long_as_promised():
    assert len(SIZES) >= 30


def test_the_rule_may_allow_fewer_nodes_than_the_queue_has():
    found = lay(workload(mpi=True, ranks=32, cpu=32), max_nodes=2)
    assert found == "needs 4 nodes for 32 ranks of 1 core; it may have 2 (asked for: the ranks)"


def test_a_rule_cannot_allow_more_than_the_queue_has():
    assert isinstance(lay(workload(mpi=True, ranks=40, cpu=40), max_nodes=9), str)


def test_a_site_may_refuse_gpus():
    found = lay(workload(gpus=1), GPU_QUEUE, site(gpus="refuse"))
    assert found == "asks for 1 GPU, and site cluster takes no GPU Jobs"


def test_the_rules_defaults_fill_in_what_nobody_asked_for():
    defaults = Defaults(cpus=4, memory=8 * GI)
    assert chunks(lay(workload(), defaults=defaults)) == (Chunk(1, 1, 4, 4, 8 * GI, 0),)
    assert chunks(lay(workload(cpu=2, memory=GI), defaults=defaults)) == (Chunk(1, 1, 2, 2, GI, 0),)
    assert chunks(lay(workload(cpu=0, memory=0), defaults=defaults)) == (Chunk(1, 1, 1, 1, None, 0),)


PROFILE = MpiProfile(name="lammps", launcher=LauncherKind.OPENMPI, implies_mpi=True)


def test_a_profile_makes_an_mpi_workload_of_a_job_that_names_no_launcher():
    assert chunks(lay(workload(cpu=16), profile=PROFILE)) == (Chunk(2, 8, 8, 1, None, 0),)


def test_a_profile_that_does_not_say_so_makes_none():
    plain = MpiProfile(name="lammps", launcher=LauncherKind.OPENMPI)
    assert lay(workload(cpu=16), profile=plain) == f"asks for 16 CPUs, and a node has 8; {SPANS}"


@pytest.mark.parametrize(
    "command", [("sh", "-c", "cd /w && mpirun -np 4 ./a"), ("/bin/bash", "/cfg/run.sh"), ("sh", "-c", "bash ./run.sh")]
)
def test_a_profile_makes_one_of_a_container_that_starts_its_ranks_itself(command: tuple[str, ...]) -> None:
    script = Container("main", ContainerKind.MAIN, "p", "image", command=command)
    assert chunks(lay(workload(cpu=4, containers=(script,)), profile=PROFILE)) == (Chunk(1, 4, 4, 1, None, 0),)


def test_without_a_profile_a_launcher_inside_runs_on_one_node_with_a_warning() -> None:
    script = Container("main", ContainerKind.MAIN, "p", "image", command=("sh", "-c", "cd /w && mpirun -np 4 ./a"))
    inside = replace(workload(mpi=True, ranks=16, cpu=4, containers=(script,)), mpi_hinted=False)

    found = lay(inside, profile=None)

    assert not isinstance(found, str)
    assert chunks(found) == (Chunk(1, 1, 4, 4, None, 0),)
    assert found.warnings == (
        "p: the site has no MPI profile for image, so its launcher starts ranks in the container alone, on one node",
    )


def test_a_profile_makes_none_of_several_containers():
    two = (MAIN, Container("other", ContainerKind.MAIN, "spec.template.spec.containers[1]", "image"))
    assert isinstance(lay(workload(cpu=16, containers=two), profile=PROFILE), str)


def test_a_request_that_is_raised_is_told():
    found = lay(workload(mpi=True, ranks=8, cpu=2))
    assert isinstance(found, Allocation)
    assert found.warnings == ("8 ranks of 1 core need 8 cores; the request of 2 CPUs is raised to that",)
    quiet = lay(workload(mpi=True, ranks=8))
    assert isinstance(quiet, Allocation)
    assert quiet.warnings == ()


MI = 1024**2
RAISED = (
    "The memory of {} is raised to {} on each node: container runtimes do not start with less on site cluster"
).format


@pytest.mark.parametrize(
    ("fields", "work", "on", "memory", "warnings"),
    [
        # 512Mi on TORQUE, nothing elsewhere.
        ({}, workload(memory=64 * MI), None, [512 * MI], (RAISED("64Mi", "512Mi"),)),
        ({}, workload(memory=512 * MI), None, [512 * MI], ()),
        ({}, workload(memory=GI), None, [GI], ()),
        ({"system": "openpbs"}, workload(memory=64 * MI), None, [64 * MI], ()),
        ({"system": "slurm"}, workload(memory=64 * MI), None, [64 * MI], ()),
        ({"runtime": "host"}, workload(memory=64 * MI), None, [64 * MI], ()),
        # As the site says.
        ({"memory_floor": "1Gi"}, workload(memory=64 * MI), None, [GI], (RAISED("64Mi", "1Gi"),)),
        ({"memory_floor": "0"}, workload(memory=64 * MI), None, [64 * MI], ()),
        (
            {"system": "openpbs", "memory_floor": "100Mi"},
            workload(memory=64 * MI),
            None,
            [100 * MI],
            (RAISED("64Mi", "100Mi"),),
        ),
        # What nobody asked for is the queue's.
        ({}, workload(), None, [None], ()),
        # No more than a node has.
        ({}, workload(memory=64 * MI), queue(memory_per_node=256 * MI), [256 * MI], (RAISED("64Mi", "256Mi"),)),
        ({}, workload(memory=64 * MI), queue(memory_per_node=None), [512 * MI], (RAISED("64Mi", "512Mi"),)),
        # Each node has it.
        (
            {},
            workload(mpi=True, ranks=3, nodes=2, memory=900 * MI),
            None,
            [600 * MI, 512 * MI],
            (RAISED("300Mi", "512Mi"),),
        ),
    ],
)
def test_jobs_ask_for_no_less_memory_than_the_site_says(
    fields: dict[str, Any], work: Workload, on: Queue | None, memory: list[int | None], warnings: tuple[str, ...]
):
    found = lay(work, on, site(**{"system": "torque", **fields}))

    assert isinstance(found, Allocation)
    assert [chunk.memory for chunk in found.chunks] == memory
    assert found.warnings == warnings


def test_figures_say_where_they_come_from():
    found = lay(workload(mpi=True, ranks=8, cpu=17, walltime_asked=60))
    assert isinstance(found, Allocation)
    assert found.notes == (
        ("ranks", "the ranks"),
        ("cores per rank", "17 CPUs over 8 ranks, rounded down"),
        ("memory", "nothing was asked for; the queue decides"),
        ("nodes", "the fewest whose cores and memory hold the ranks, and that share the GPUs evenly"),
        ("walltime", "the walltime_asked, with grace period and margin"),
    )


# --- time ---------------------------------------------------------------------------------------------------------------

HOUR = 3600

TIMES = [
    # asked, grace, queue's default, queue's maximum -> walltime, deadline
    ("asked: deadline, grace period, margin", 3600, 30, None, None, (3930, 3600)),
    ("asked: the queue's default means nothing", 60, 30, HOUR, None, (390, 60)),
    ("asked: the margin is cut first", 3600, 30, None, 3700, (3700, 3600)),
    ("asked: all of the margin", 3570, 30, None, HOUR, (HOUR, 3570)),
    (
        "asked: one second too long",
        3571,
        30,
        None,
        HOUR,
        "asks for 59m31s and 30s of grace; the longest walltime is 1h: ask for at most 59m30s",
    ),
    (
        "asked: the grace period alone is too long",
        60,
        3600,
        None,
        HOUR,
        "asks for 1m and 1h of grace; the longest walltime is 1h, which the grace period alone uses up",
    ),
    (
        "asked: a day too long",
        90000,
        30,
        None,
        HOUR,
        "asks for 1d1h and 30s of grace; the longest walltime is 1h: ask for at most 59m30s",
    ),
    ("asked: no grace period", 100, 0, None, None, (400, 100)),
    ("asked: one second", 1, 0, None, None, (301, 1)),
    (
        "asked: more than any batch system can express",
        2**63 - 1,
        30,
        None,
        None,
        "asks for 106751991167300d15h30m7s and 30s of grace; the longest walltime is 3660d: ask for at most 3659d23h59m30s",
    ),
    ("unset: one hour", None, 30, None, None, (HOUR, HOUR - 330)),
    ("unset: the queue's default", None, 30, 7200, None, (7200, 6870)),
    ("unset: the default is cut to the maximum", None, 30, 7200, HOUR, (HOUR, HOUR - 330)),
    ("unset: one hour is cut as well", None, 30, None, 1800, (1800, 1470)),
    ("unset: the deadline is at least half", None, 30, 600, None, (600, 300)),
    ("unset: at least half, odd seconds", None, 0, 599, None, (599, 300)),
    (
        "unset: a grace period that leaves no half",
        None,
        HOUR,
        HOUR,
        None,
        "has a grace period of 1h, more than half of the walltime of 1h for Jobs that ask for none",
    ),
]


@pytest.mark.parametrize(
    ("asked", "grace", "default", "longest", "expected"), [row[1:] for row in TIMES], ids=[row[0] for row in TIMES]
)
def test_walltime_and_deadline(
    asked: int | None, grace: int, default: int | None, longest: int | None, expected: tuple[int, int] | str
):
    found = lay(workload(grace=grace, walltime_asked=asked), queue(walltime_default=default, walltime_max=longest))
    assert (found if isinstance(found, str) else (found.walltime, found.deadline)) == expected


SLURM_TIMES = [
    ("whole minutes, rounded up", 61, 30, None, (420, 61)),
    ("the maximum counts in whole minutes", 60, 0, 90, (60, 60)),
    (
        "rounding never passes the maximum",
        61,
        0,
        90,
        "asks for 1m1s and 0s of grace; the longest walltime is 1m: ask for at most 1m",
    ),
    ("the margin is cut to whole minutes", 100, 20, 239, (180, 100)),
    (
        "under a minute there is nothing to ask for, and 0 would mean no limit",
        10,
        0,
        59,
        "needs at least 1m of walltime, the unit of slurm; it may have 59s",
    ),
    ("unset", None, 30, 3659, (3600, 3270)),
]


@pytest.mark.parametrize(
    ("asked", "grace", "longest", "expected"), [row[1:] for row in SLURM_TIMES], ids=[row[0] for row in SLURM_TIMES]
)
def test_slurm_counts_minutes(asked: int | None, grace: int, longest: int | None, expected: tuple[int, int] | str):
    found = lay(workload(grace=grace, walltime_asked=asked), queue(walltime_max=longest), site("slurm"))
    assert (found if isinstance(found, str) else (found.walltime, found.deadline)) == expected


def test_the_rules_maximum_holds_beside_the_queues():
    found = lay(workload(walltime_asked=1800), queue(walltime_max=7200), max_walltime=900)
    assert found == "asks for 30m and 30s of grace; the longest walltime is 15m: ask for at most 14m30s"


def test_the_rules_default_walltime_comes_before_the_queues():
    found = lay(workload(), queue(walltime_default=HOUR), defaults=Defaults(walltime=7200))
    assert isinstance(found, Allocation)
    assert (found.walltime, found.deadline) == (7200, 6870)


# --- what holds for every case ------------------------------------------------------------------------------------------

some = st.none() | st.integers(1, 64)
workloads = st.builds(
    workload,
    mpi=st.booleans(),
    grace=st.integers(0, 7200),
    cpu=st.none() | st.integers(0, 256_000).map(lambda millis: millis / 1000),
    memory=st.none() | st.integers(0, 2**40),
    gpus=st.none() | st.integers(0, 32),
    ranks=st.none() | st.integers(1, 300),
    ranks_per_node=some,
    nodes=some,
    cores_per_rank=st.none() | st.integers(1, 16),
    walltime_asked=st.none() | st.integers(1, 2**63 - 1) | st.integers(1, 10000),
)
queues = st.builds(
    queue,
    nodes=st.integers(1, 40),
    cpus_per_node=st.integers(1, 128),
    memory_per_node=st.none() | st.integers(1, 2**40),
    gpus_per_node=st.integers(0, 8),
    walltime_default=st.none() | st.integers(1, 100_000),
    walltime_max=st.none() | st.integers(1, 100_000),
)
systems = st.sampled_from(list(SYSTEMS))


def figure(found: Figure | None) -> int:
    return found.value if found else 0


@given(workloads, queues, systems, st.none() | st.integers(1, 50), st.none() | st.integers(1, 10**6))
def test_an_allocation_never_exceeds_nodes_nor_falls_short_of_what_was_asked(
    work: Workload, on: Queue, system: str, max_nodes: int | None, max_walltime: int | None
):
    found = lay(work, on, site(system), max_nodes=max_nodes, max_walltime=max_walltime)
    if isinstance(found, str):
        assert found
        return
    assert sum(chunk.count * chunk.ranks for chunk in found.chunks) == found.ranks
    assert found.nodes <= min(on.nodes, max_nodes or on.nodes)
    for chunk in found.chunks:
        assert chunk.count >= 1
        assert chunk.ranks >= 1
        assert chunk.ncpus == chunk.ranks * found.cores_per_rank <= on.cpus_per_node
        assert chunk.ompthreads == found.cores_per_rank
        assert chunk.gpus <= on.gpus_per_node
        if chunk.memory is not None and on.memory_per_node is not None:
            assert 0 < chunk.memory <= on.memory_per_node
    if figure(work.memory):
        assert sum(chunk.count * (chunk.memory or 0) for chunk in found.chunks) >= figure(work.memory)
    assert sum(chunk.count * chunk.gpus for chunk in found.chunks) == figure(work.gpus)
    if not work.mpi:
        assert (found.nodes, found.ranks) == (1, 1)
        assert found.chunks[0].ncpus * 1000 >= figure(work.cpu)
    elif work.ranks is not None:
        assert found.ranks == work.ranks.value


@given(workloads, queues, systems, st.none() | st.integers(1, 10**6))
def test_a_walltime_holds_deadline_and_grace_and_stays_within_every_limit(
    work: Workload, on: Queue, system: str, max_walltime: int | None
):
    found = lay(work, on, site(system), max_walltime=max_walltime)
    if isinstance(found, str):
        return
    assert found.deadline >= 1
    assert found.deadline + found.grace <= found.walltime
    assert found.grace == work.grace
    assert found.walltime <= min(on.walltime_max or found.walltime, max_walltime or found.walltime)
    if system == "slurm":
        assert found.walltime % 60 == 0
    if work.walltime_asked is not None:
        assert found.deadline == work.walltime_asked.value
    else:
        assert found.deadline * 2 >= found.walltime


@given(workloads, queues)
def test_the_same_question_has_the_same_answer(work: Workload, on: Queue):
    assert lay(work, on) == lay(work, on)


@given(st.integers(1, 300), st.integers(1, 40))
def test_ranks_lie_on_the_fewest_nodes_and_evenly(ranks: int, cores: int):
    found = lay(workload(mpi=True, ranks=ranks), queue(nodes=300, cpus_per_node=cores))
    assert isinstance(found, Allocation)
    assert found.nodes == -(-ranks // cores)
    shares = [chunk.ranks for chunk in found.chunks]
    assert shares == sorted(shares, reverse=True)
    assert max(shares) - min(shares) <= 1


AT_LEAST = [
    ({"ranks": 4, "nodes": 2}, (Chunk(2, 2, 2, 1, None, 0),)),
    ({"ranks": 32, "nodes": 2}, (Chunk(4, 8, 8, 1, None, 0),)),
    ({"ranks": 3, "nodes": 4}, (Chunk(3, 1, 1, 1, None, 0),)),
    ({"ranks": 6, "nodes": 3, "ranks_per_node": 4}, (Chunk(3, 2, 2, 1, None, 0),)),
    ({"ranks": 6, "nodes": 1, "ranks_per_node": 4}, (Chunk(1, 4, 4, 1, None, 0), Chunk(1, 2, 2, 1, None, 0))),
    ({"ranks": 4, "nodes": 3, "gpus": 4}, (Chunk(4, 1, 1, 1, None, 1),)),
]


@pytest.mark.parametrize(("figures", "expected"), AT_LEAST, ids=range(len(AT_LEAST)))
def test_nodes_that_are_the_fewest_may_be_more(figures: dict[str, Any], expected: tuple[Chunk, ...]):
    assert chunks(lay(workload(mpi=True, nodes_at_least=True, **figures), queue(gpus_per_node=4))) == expected
