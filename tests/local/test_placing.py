"""Where jobs are placed: chunks on nodes, scatter, pack, whole nodes, GPUs."""

from __future__ import annotations

import pytest

from router.local import placing
from router.local.records import Job, Queue, Share
from router.local.resources import Chunk, asked

QUEUE = Queue("workq", nodes=2, cpus_per_node=4, memory=1 << 30, gpus=2)


def _job(select: str, place: str = "free", shares: tuple[Share, ...] = ()) -> Job:
    request = asked({"select": select, "place": place})
    return Job(
        seq=0, server="local", name="n", owner="u", host="h", queue="workq", state="Q", substate=10,
        chunks=list(request.chunks), place=place, walltime=None, listed={}, options={}, attributes={}, variables={},
        origin={}, arguments="", output="", error="", created=0, modified=0, shares=list(shares),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("select", "place", "nodes"),
    [
        ("1:ncpus=4", "free", [0]),
        ("2:ncpus=2", "free", [0, 0]),
        ("2:ncpus=2", "scatter", [0, 1]),
        ("2:ncpus=3", "free", [0, 1]),
        ("2:ncpus=2", "pack", [0, 0]),
        ("2:ncpus=3", "pack", None),
        ("3:ncpus=1", "scatter", None),
        ("1:ncpus=5", "free", None),
        ("1:mem=2gb", "free", None),
        ("1:mem=600mb+1:mem=600mb", "free", [0, 1]),
        ("1:ngpus=3", "free", None),
        ("100000000:ncpus=0", "scatter", None),
    ],
)
def test_an_empty_queue(select: str, place: str, nodes: list[int] | None) -> None:
    shares = placing.place(_job(select, place), QUEUE, ())

    assert (None if shares is None else [share.node for share in shares]) == nodes


def test_beside_what_runs() -> None:
    running = _job("1:ncpus=3:ngpus=1", shares=(Share(0, 3, 1, 0, [0]),))

    assert placing.place(_job("1:ncpus=2:ngpus=1"), QUEUE, [running]) == [Share(1, 2, 1, 0, [2])]
    assert placing.place(_job("1:ncpus=1:ngpus=1"), QUEUE, [running]) == [Share(0, 1, 1, 0, [1])]
    assert placing.place(_job("1:ncpus=1", "free:excl"), QUEUE, [running]) == [Share(1, 1, 1, 0, [])]
    assert placing.free_nodes(QUEUE, [running]) == 1


def test_a_job_alone_on_its_node_leaves_nothing() -> None:
    alone = _job("1:ncpus=1", "scatter:excl", shares=(Share(0, 1, 1, 0, []),))

    assert placing.place(_job("1:ncpus=1"), QUEUE, [alone]) == [Share(1, 1, 1, 0, [])]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("1:ncpus=1", ""),
        ("1:ncpus=100", "Can Never Run: Insufficient amount of resource: ncpus (R: 100 A: 8 T: 8)"),
        ("1:ngpus=9", "Can Never Run: Insufficient amount of resource: ngpus (R: 9 A: 4 T: 4)"),
        ("1:ncpus=5", "Can Never Run: Not enough total nodes available"),
        ("100000000:ncpus=1", "Can Never Run: Insufficient amount of resource: ncpus (R: 100000000 A: 8 T: 8)"),
    ],
)
def test_what_can_never_run(select: str, words: str) -> None:
    assert placing.never(_job(select), QUEUE) == words


def test_a_chunk_without_figures_is_one_core() -> None:
    assert asked({"select": "1"}).chunks == (Chunk(1, 1, 1, 1, 0, 0),)
