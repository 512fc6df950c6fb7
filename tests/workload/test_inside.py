"""Which container keeps its launcher inside, and what it asks for."""

from __future__ import annotations

import pytest

from router.workload import workload_of
from router.workload.inside import starts_ranks
from router.workload.launchfigures import largest
from router.workload.model import Figure, Workload
from tests.workload.manifests import Manifest, annotated, asking, container, job

MAIN = "spec.template.spec.containers[0]"


def sized(*command: str, **hints: str) -> Workload:
    words: Manifest = {"command": list(command)} if command else {}
    made = job(asking("main", {"cpu": "8"}, **words))
    keys = {f"batchgate.dev/{name.replace('_', '-')}": value for name, value in hints.items()}
    return workload_of(annotated(made, keys), namespace="n")


def figures(found: Workload) -> tuple[int | None, ...]:
    asked = (found.ranks, found.ranks_per_node, found.nodes, found.cores_per_rank)
    return tuple([figure.value if figure else None for figure in asked])


TEXTS = [
    # command, hints; ranks, ranks per node, nodes, cores per rank
    (("sh", "-c", "cd /w && mpirun -np 4 ./a | tee log"), {}, (4, None, None, None)),
    (("sh", "-c", "for n in 2 16 4; do mpirun -np $n ./a; done"), {}, (16, None, None, None)),
    (("sh", "-c", "cd /w; mpirun -np ${NP:-6} ./a; mpirun -np 2 ./b"), {}, (6, None, None, None)),
    (("sh", "-c", "cd /w; mpirun -np $(nproc) ./a"), {}, (8, None, None, None)),
    (("sh", "-c", "cd /w; mpirun ./a"), {}, (None, None, None, None)),  # the CPUs, as for a lifted one
    (("sh", "-c", "cd /w; mpirun --map-by slot:pe=2 ./a"), {}, (None, None, None, 2)),
    (("sh", "-c", "cd /w; mpirun -np 2 ./a; mpirun ./b"), {}, (8, None, None, None)),
    (("sh", "-c", "cd /w; mpirun -np 12 ./a; mpirun -np $X ./b"), {}, (12, None, None, None)),
    (("sh", "-c", "cd /w; srun -N 2 --ntasks-per-node=4 ./a; srun -n 4 -N 1 ./b"), {}, (8, 4, 2, None)),
    (("sh", "-c", "cd /w; mpirun -np 4 ./a"), {"ranks": "2"}, (2, None, None, None)),
    (("sh", "-c", "cd /w; mpirun -np 4 ./a"), {"nodes": "2"}, (4, None, 2, None)),
    (("sh", "-c", "cd /w; mpirun -np 4 ./a"), {"nodes": "2", "ranks_per_node": "3"}, (4, 3, 2, None)),
    (("sh", "-c", "cd /w; mpirun -ppn 4 ./a"), {"nodes": "2"}, (8, 4, 2, None)),
    (("sh", "-c", "cd /w; mpirun -ppn 4 ./a"), {}, (None, 4, None, None)),
    # the largest of each kind, whichever launch asks for it
    (("sh", "-c", "cd /w; srun -n 4 ./a; srun -N 2 -n 2 ./b"), {}, (4, None, 2, None)),
    (("sh", "-c", "cd /w; srun -n 4 ./a; srun -N 2 -n 2 ./b"), {"nodes": "1"}, (4, None, 1, None)),
    (("sh", "-c", "cd /w; mpirun -np 4 ./a; mpirun -np 4 -pernode ./b"), {}, (4, None, 4, None)),
    (("sh", "-c", "cd /w; mpirun -np 7 -ppn 3 ./a; mpirun -np 8 -ppn 4 ./b"), {}, (8, None, 3, None)),
    (("sh", "-c", "cd /w; mpirun -np 4 -ppn 2 ./a; mpirun -np 8 -ppn 2 ./b"), {}, (8, 2, None, None)),
    (("sh", "-c", "cd /w; mpirun -ppn 4 ./a; mpirun -np 2 ./b"), {}, (4, None, None, None)),
    (("sh", "-c", "cd /w; mpirun -ppn 4 ./a; mpirun -np 2 ./b"), {"ranks_per_node": "2"}, (4, 2, None, None)),
    (("sh", "-c", "cd /w; mpirun -ppn 4 ./a; mpirun ./b"), {}, (8, 4, None, None)),
    (("sh", "-c", "cd /w; mpirun -np 16 ./a; mpirun -np 8 --map-by slot:PE=4 ./b"), {}, (16, None, None, 2)),
    (("sh", "-c", "cd /w; mpirun -np 10 ./a; mpirun -np 3 --map-by slot:PE=7 ./b"), {}, (10, None, None, 3)),
    (("sh", "-c", "cd /w; mpirun -np 4 ./a; mpirun -np 2 --map-by slot:PE=3 ./b"), {}, (4, None, None, None)),  # 8 CPUs
    (("sh", "-c", "mpirun --app file | tee x"), {}, (None, None, None, None)),
    (("mpiexec", "-configfile", "file"), {}, (None, None, None, None)),
    # ranks without a core each: 8 CPUs are asked for
    (("sh", "-c", "cd build && mpirun -np 128 --oversubscribe ./t"), {}, (8, None, None, None)),
    (("sh", "-c", "cd build && mpirun -np 128 -oversubscribe ./t"), {}, (8, None, None, None)),
    (("sh", "-c", "cd build && mpirun -np 128 --map-by slot:Oversubscribe ./t"), {}, (8, None, None, None)),
    (("sh", "-c", "cd build && mpirun -np 128 --map-by :OVERSUBSCRIBE:PE=4 ./t"), {}, (2, None, None, 4)),
    (("sh", "-c", "cd build && mpirun -np 128 --map-by slot:NOOVERSUBSCRIBE ./t"), {}, (128, None, None, None)),
    (("sh", "-c", "cd build && mpirun -np 128 -ppn 64 --oversubscribe ./t"), {}, (8, 8, None, None)),
    (("sh", "-c", "cd build && mpirun -np 4 --oversubscribe ./t"), {}, (4, None, None, None)),
    (("sh", "-c", "cd build && mpirun -np 128 --oversubscribe ./t; mpirun -np 6 ./u"), {}, (8, None, None, None)),
    (("sh", "-c", "for o in --oversubscribe -q; do mpirun $o -np 16 ./t; done"), {}, (16, None, None, None)),
    (("sh", "-c", "cd build && srun -n 16 --oversubscribe ./t"), {}, (16, None, None, None)),  # srun shares nodes by it
    (("sh", "-c", "cd build && mpirun -np 128 --oversubscribe ./t"), {"ranks": "64"}, (64, None, None, None)),
    (("sh", "-c", "cd /w; srun -n 4 -c 2 ./a; srun -n 2 -c 2 ./b"), {}, (4, None, None, 2)),
    (("bash", "/cfg/run.sh"), {"nodes": "2"}, (None, None, 2, None)),
    (("bash", "/cfg/run.sh"), {"ranks": "4"}, (4, None, None, None)),
    (("sh", "-c", "ssh n mpirun -np 4 ./a"), {"ranks": "4"}, (4, None, None, None)),
    ((), {"ranks": "4"}, (4, None, None, None)),
    (("/cfg/run.sh",), {"ranks": "4", "launcher": "inside"}, (4, None, None, None)),
    (("python3", "-m", "solver"), {"launcher": "inside"}, (None, None, None, None)),
    (("mpirun", "-np", "4", "./a"), {"launcher": "inside"}, (4, None, None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("command", "hints", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_a_container_with_its_launcher_inside_is_mpi(
    command: tuple[str, ...], hints: dict[str, str], expected: tuple[int | None, ...]
) -> None:
    found = sized(*command, **hints)

    assert (found.mpi, figures(found), found.obstacles, found.warnings) == ("main", expected, (), ())
    assert (starts_ranks(found.container("main")), found.mpi_hinted) == (True, bool(hints))


OTHERS: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    # command, hints; the MPI container, which starts its program once a rank
    (("mpirun", "-np", "4", "./a"), {}, "main"),
    (("sh", "-c", "mpirun -np 4 ./a"), {}, "main"),
    (("./select_gpu.sh", "./a"), {"ranks": "4"}, "main"),
    (("mpirun", "-np", "4", "./select_gpu.sh", "./a"), {}, "main"),
    (("sh", "-c", "cd /w && ./a"), {"ranks": "4"}, "main"),
    (("sh", "-c", "# mpirun\n./a"), {"ranks": "4"}, "main"),
    (("bash", "/cfg/run.sh"), {}, ""),
    (("sh", "-c", "ssh n mpirun ./a"), {}, ""),
    (("./a",), {}, ""),
]


@pytest.mark.parametrize(("command", "hints", "mpi"), OTHERS, ids=range(len(OTHERS)))
def test_other_containers_keep_none(command: tuple[str, ...], hints: dict[str, str], mpi: str) -> None:
    found = sized(*command, **hints)
    assert (found.mpi, found.obstacles) == (mpi, ())
    assert not (mpi and starts_ranks(found.container(mpi)))


STARTS = [
    (("bash", "/cfg/run.sh"), True),
    (("sh", "-c", "cd /w && bash run.sh"), True),
    ((), True),
    (("./a",), False),
    (("sh", "-c", "cd /w && ./a"), False),
]


@pytest.mark.parametrize(("command", "expected"), STARTS, ids=range(len(STARTS)))
def test_without_a_launcher_in_sight_a_script_may_start_ranks(command: tuple[str, ...], expected: bool) -> None:
    assert starts_ranks(sized(*command).containers[0]) is expected


def test_with_several_containers_a_launcher_inside_stays_on_one_node() -> None:
    found = workload_of(job(container("a"), container("b", command=["sh", "-c", "x; mpirun -np 2 ./a"])), namespace="n")
    assert (found.mpi, found.obstacles, len(found.warnings)) == ("", (), 1)


def test_what_gives_no_number_is_a_rank_a_core() -> None:
    (main,) = sized("sh", "-c", "cd /w; mpirun ./a").containers
    assert main.started

    assert largest(main.started.launches, main.cpu)[1] == Figure(
        8, f"one for each share of the CPUs asked for, as mpirun in {MAIN}.command[2], line 1, gives no number"
    )


def test_what_several_launches_make_says_from_which() -> None:
    found = sized("sh", "-c", "cd /w; mpirun -np 16 ./a; mpirun -np 9 -ppn 2 --map-by slot:PE=4 ./b")
    where = f"in {MAIN}.command[2], line 1"
    assert (found.ranks, found.nodes, found.cores_per_rank, found.nodes_at_least) == (
        Figure(16, f"mpirun -np 16 {where}"),
        Figure(5, f"mpirun -np 9 {where} over mpirun -ppn 2 {where}"),
        Figure(3, f"mpirun --map-by slot:PE=4 {where}, for 9 ranks, over 16"),
        True,
    )


LEAST = [
    ("srun -N 2 -n 4 ./a", {}, False),
    ("srun -N 2 -n 4 ./a; srun -N 2 -n 2 ./b", {}, False),
    ("srun -N 2 -n 4 ./a; srun -N 1 -n 2 ./b", {}, True),
    ("srun -N 2 -n 4 ./a; srun -n 64 ./b", {}, True),
    ("srun -N 2 -n 4 ./a; srun -n 64 ./b", {"nodes": "2"}, False),
    ("srun -n 4 ./a; srun -n 64 ./b", {}, False),
]


@pytest.mark.parametrize(("text", "hints", "expected"), LEAST, ids=range(len(LEAST)))
def test_nodes_of_one_launch_are_the_fewest_for_all(text: str, hints: dict[str, str], expected: bool) -> None:
    assert sized("sh", "-c", f"cd /w; {text}", **hints).nodes_at_least is expected


def test_ranks_without_a_core_each_need_at_least_one() -> None:
    text = "cd build && mpirun -np 128 --oversubscribe ./t"
    found = workload_of(job(container("main", command=["sh", "-c", text])), namespace="n")
    assert found.ranks == Figure(
        1, f"the CPUs asked for, as mpirun -np 128 in {MAIN}.command[2], line 1, may share cores (oversubscribe)"
    )
