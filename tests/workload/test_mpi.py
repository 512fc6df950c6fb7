"""Which Jobs are MPI workloads, with what figures, and what keeps an MPI program from being spread."""

from __future__ import annotations

import pytest

from router.errors import JobError
from router.workload import workload_of
from router.workload.inside import starts_ranks
from router.workload.model import Workload
from tests.workload.manifests import Manifest, annotated, container, job, mpi

MAIN = "spec.template.spec.containers[0]"
PREFIX = "batchgate.dev/"


def size(manifest: Manifest, **hints: str) -> Workload:
    hinted = annotated(manifest, {PREFIX + key.replace("_", "-"): value for key, value in hints.items()})
    return workload_of(hinted, namespace="lab")


def figures(found: Workload) -> tuple[str, int | None, int | None, int | None, int | None]:
    values = (found.ranks, found.ranks_per_node, found.nodes, found.cores_per_rank)
    ranks, per_node, nodes, cores = (None if figure is None else figure.value for figure in values)
    return found.mpi, ranks, per_node, nodes, cores


PLAIN = job(container(command=["./solver"]))

TABLE = [
    (PLAIN, {}, ("", None, None, None, None)),
    (PLAIN, {"walltime": "1h"}, ("", None, None, None, None)),
    (PLAIN, {"ranks": "8"}, ("main", 8, None, None, None)),
    (PLAIN, {"ranks_per_node": "4"}, ("main", None, 4, None, None)),
    (PLAIN, {"nodes": "2", "ranks_per_node": "4"}, ("main", 8, 4, 2, None)),
    (mpi("mpirun", "-np", "8", "./a"), {}, ("main", 8, None, None, None)),
    (mpi("mpirun", "./a"), {}, ("main", None, None, None, None)),
    (mpi("mpirun", "./a"), {"ranks": "8"}, ("main", 8, None, None, None)),
    (mpi("mpirun", "-np", "8", "./a"), {"ranks": "16"}, ("main", 16, None, None, None)),
    (mpi("mpirun", "-npernode", "4", "./a"), {"nodes": "2"}, ("main", 8, 4, 2, None)),
    (mpi("srun", "-N", "2", "--ntasks-per-node", "4", "-c", "2", "./a"), {}, ("main", 8, 4, 2, 2)),
    (mpi("mpirun", "-np", "8", "--map-by", "ppr:4:node:pe=2", "./a"), {}, ("main", 8, 4, None, 2)),
    (mpi("sh", "-c", "cd /w && mpirun -np 8 ./a"), {}, ("main", 8, None, None, None)),
]


@pytest.mark.parametrize(("manifest", "hints", "expected"), TABLE, ids=range(len(TABLE)))
def test_ranks_come_from_hints_and_launchers(
    manifest: Manifest, hints: dict[str, str], expected: tuple[str, int | None, int | None, int | None, int | None]
):
    assert figures(size(manifest, **hints)) == expected


def test_a_hint_that_beats_the_launcher_is_told():
    assert size(mpi("mpirun", "-np", "8", "./a"), ranks="16").warnings == (
        f"metadata.annotations[batchgate.dev/ranks] says 16 and mpirun -np 8 in {MAIN}.command says 8: the hint counts",
    )


def test_dropped_options_are_named():
    assert size(mpi("mpirun", "--hostfile", "h", "-np", "2", "./a")).warnings == (
        f"{MAIN}.command: left to the site's own launcher: --hostfile h",
    )


def test_a_launcher_in_a_text_that_is_not_read_is_told_with_the_reason():
    (warning,) = size(mpi("sh", "-c", "mpirun ./a; if")).warnings
    assert warning == (
        f"{MAIN}.command: see docs/mpi.md: to use several nodes give a hint, such as batchgate.dev/ranks, or make mpirun the whole "
        "command; it stands in a list of "
        "commands (;) (line 1: the text has syntax that the parser does not know), so it is one process on one node"
    )


def test_one_rank_of_a_launcher_that_stays_is_told_in_the_singular():
    text = ["sh", "-c", "cd /w; mpirun -np 1 ./a"]
    warnings = size(job(container("a", command=text), container("b"))).warnings
    assert [one.partition("(line")[2] for one in warnings] == [
        " 1, column 8: 1 rank), so it is one process on one node",
    ]


def test_a_launcher_in_args_bypasses_the_entrypoint_and_says_so():
    found = size(job(container(args=["mpirun", "-np", "2", "./a"])))
    assert found.mpi == "main"
    assert found.warnings == (
        f"{MAIN}.args: mpirun is started without the image's ENTRYPOINT, which would get the args",
    )


def test_a_launcher_in_one_of_several_containers_is_a_reason_to_stay():
    found = size(job(container("log"), container("main", command=["mpirun", "-np", "2", "./a"])))
    assert found.mpi == ""
    assert [(o.path, o.reason) for o in found.obstacles] == [
        (
            "spec.template.spec.containers[1].command",
            (
                "starts mpirun in one of 2 containers, and only a Pod with one container can be spread over nodes; "
                "leave the others out or make them sidecars"
            ),
        )
    ]


def test_sidecars_and_init_containers_do_not_matter():
    init = [container("first"), container("beside", restartPolicy="Always")]
    found = size(job(container("main", command=["mpirun", "-np", "2", "./a"]), pod={"initContainers": init}))
    assert (found.mpi, found.obstacles) == ("main", ())
    assert [c.launcher is not None for c in found.containers] == [False, False, True]


def test_a_launcher_in_an_init_container_is_told():
    found = size(job(container(), pod={"initContainers": [container("i", command=["mpirun", "./a"])]}))
    assert (found.mpi, found.obstacles) == ("", ())
    assert found.warnings == (
        "spec.template.spec.initContainers[0]: mpirun in an init container stays on the first node",
    )


def test_a_hint_for_several_containers_is_a_reason_to_stay():
    found = size(job(container("a"), container("b")), ranks="4")
    assert [o.path for o in found.obstacles] == ["metadata.annotations[batchgate.dev/ranks]"]


def test_under_a_hint_the_image_s_entrypoint_starts_its_ranks_itself():
    found = size(job(container("main", args=["x"])), ranks="4")
    assert (found.mpi, found.obstacles, starts_ranks(found.container("main"))) == ("main", (), True)


@pytest.mark.parametrize(
    "command",
    [
        ["/bin/bash", "/cfg/run.sh"],
        ["bash", "-l", "-e", "/cfg/run.sh", "8"],
        ["timeout", "600", "sh", "run"],
        ["sh", "-c", "cd /w && bash ./run.sh"],
        ["sh", "-c", "bash < /cfg/run"],
        ["sh", "-c", 'eval "$(cat /cfg/run)"'],
        ["bash", "-s"],
        ["sh", "-c", "cat > run <<E\nmpirun -np 4 ./a\nE\nbash run"],
        ["sh", "-c", "ssh node mpirun ./a"],
    ],
)
@pytest.mark.parametrize("hint", ["nodes", "ranks", "ranks_per_node"])
def test_under_a_hint_what_may_start_a_launcher_runs_once(command: list[str], hint: str):
    found = size(mpi(*command), **{hint: "2"})
    assert (found.mpi, found.obstacles, starts_ranks(found.container("main"))) == ("main", (), True)


@pytest.mark.parametrize("program", ["./select_gpu.sh", "./select_gpu", "/cfg/run.bash", "a.py"])
def test_under_a_hint_a_program_is_started_once_a_rank_whatever_its_name(program: str):
    found = size(mpi(program, "./a"), ranks="4")
    assert (found.mpi, found.obstacles, found.warnings) == ("main", (), ())
    assert not starts_ranks(found.container("main"))


@pytest.mark.parametrize(
    "text", ["echo mpirun; ./a", "./a # mpirun", "cat <<EOF\nmpirun -np 4 ./a\nEOF", "which mpirun"]
)
def test_a_launcher_that_is_only_named_is_none(text: str):
    found = size(mpi("sh", "-c", text))
    assert (found.mpi, found.warnings, found.obstacles) == ("", (), ())
    assert size(mpi("sh", "-c", text), ranks="4").obstacles == ()


HINT = "metadata.annotations[batchgate.dev/"

BAD_HINTS = [
    ({"walltime": "soon"}, f"{HINT}walltime]: 'soon' is not a duration"),
    ({"walltime": "0"}, f"{HINT}walltime]: '0' is zero"),
    ({"walltime": "-5"}, f"{HINT}walltime]: '-5' is not a duration"),
    ({"walltime": "99999h0m1s99"}, f"{HINT}walltime]: "),
    ({"walltime": "4000d"}, f"{HINT}walltime]: '4000d' is more than ten years"),
    ({"ranks": "0"}, f"{HINT}ranks]: '0' is not a whole number from 1 to 1000000"),
    ({"ranks": "-1"}, f"{HINT}ranks]: "),
    ({"ranks": "1.5"}, f"{HINT}ranks]: "),
    ({"ranks": "1e3"}, f"{HINT}ranks]: "),
    ({"ranks": "many"}, f"{HINT}ranks]: "),
    ({"ranks": "1000001"}, f"{HINT}ranks]: "),
    ({"ranks": "9" * 5000}, f"{HINT}ranks]: "),
    ({"ranks": "٤"}, f"{HINT}ranks]: "),
    ({"ranks_per_node": ""}, f"{HINT}ranks-per-node]: "),
    ({"launcher": "outside"}, f"{HINT}launcher]: 'outside' is not 'inside', its only value"),
    ({"nodes": "two"}, f"{HINT}nodes]: "),
    ({"ranks": "2", "nodes": "4"}, f"{HINT}nodes]: asks for 4 nodes for 2 ranks"),
    ({"ranks": "9", "nodes": "2", "ranks_per_node": "4"}, f"{HINT}ranks]: asks for 9 ranks, and 2 nodes"),
    ({"route": "moon"}, f"{HINT}route]: 'moon' is neither 'cloud' nor 'hpc'"),
    ({"results": "/etc/passwd"}, f"{HINT}results]: '/etc/passwd' must be relative"),
    ({"results": "~/x"}, f"{HINT}results]: '~/x' must be relative"),
    ({"results": "out/../../x"}, f"{HINT}results]: 'out/../../x' must not lead out"),
    ({"results": "a\x07b"}, f"{HINT}results]: "),
    ({"results": "\n".join(["x"] * 1001)}, f"{HINT}results]: names 1001 results"),
]


@pytest.mark.parametrize(("hints", "expected"), BAD_HINTS, ids=range(len(BAD_HINTS)))
def test_a_wrong_hint_is_an_error_that_names_it(hints: dict[str, str], expected: str):
    with pytest.raises(JobError) as caught:
        size(PLAIN, **hints)
    assert str(caught.value)[: len(expected)] == expected


def test_hints_are_read():
    """Their names are in order: as a set, equal Jobs had differing lines in a decision log."""
    found = size(PLAIN, results="out/*.dat\n\n log.txt \n", route="hpc", walltime="90")
    assert (found.results, found.route, found.hints) == (
        ("out/*.dat", "log.txt"),
        "hpc",
        ("results", "route", "walltime"),
    )


def test_the_templates_hint_beats_the_jobs():
    manifest = annotated(PLAIN, {PREFIX + "ranks": "many"}, {PREFIX + "ranks": "4"})
    assert figures(workload_of(manifest, namespace="lab"))[:2] == ("main", 4)
