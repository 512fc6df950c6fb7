"""The bed's Slurm for ``bench.slurmefficiency`` and ``bench.slurmlatency``: its policy, and jobs by hand.

By hand each is an ``sbatch`` with one ``apptainer exec``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import drawn, ways
from bench.drawn import Task
from bench.onbed import OnBed
from bench.studypage import Point, point
from bench.whole import run
from tests.agent.bed.site import ADA, LAYOUT, NODES, QUEUE, SITE, TALLY, BedSite, as_user

ON_HPC = f"{SITE}/{QUEUE}"
CORES_OF_A_NODE, NODES_OF_THE_BED = int(str(NODES["cpusPerNode"])), int(str(NODES["nodes"]))
CORES = NODES_OF_THE_BED * CORES_OF_A_NODE


class Site(BedSite):
    """The bed, to which everything goes but small Jobs with a label."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        return {**super().documents(), "rules.yaml": {"rules": drawn.rules(QUEUE)}}


def place(bed: OnBed) -> ways.Place:
    """The bed, where jobs are given."""
    return ways.Place(
        plane=bed.stack.plane,
        api=bed.api,
        lines=bed.stack.agent.lines,
        hand=ways.ByHand(_submit, _left, _held),
        queue=ON_HPC,
        nodes=NODES_OF_THE_BED,
        cores=CORES_OF_A_NODE,
        shared=TALLY,
        documents=bed.stack.site.documents(),
    )


def _submit(task: Task, words: str) -> str:
    return run(_sbatch(task, f"--time={task.minutes}"), _script(words)).strip()


def _left(ids: Sequence[str]) -> bool:
    return bool(run(["squeue", "--noheader", f"--jobs={','.join(ids)}"]).strip())


def _held(ids: Sequence[str]) -> list[float]:
    asked = ("--noheader", "--allocations", "--parsable2", "--format=ElapsedRaw", f"--jobs={','.join(ids)}")
    return [float(one) for one in run(["sacct", *asked]).split()]


def as_array(tasks: Sequence[Task], seed: int, way: str) -> Point:
    """The figures of one array: all jobs are alike, and come at once. What each takes is not told one by one."""
    directory, first = ways.empty_directory(TALLY, way, seed), tasks[0]
    script = _script(drawn.words(first, str(directory), "$SLURM_ARRAY_TASK_ID"))
    asked = [f"--time={first.minutes}", f"--array=0-{len(tasks) - 1}"]
    at = ways.now()
    answer = run(_sbatch(first, *asked), script).strip()
    given = dict.fromkeys([task.number for task in tasks], ways.Given(at, ways.now(), answer))
    ways.await_end(tasks, directory)
    runs = ways.runs_of(tasks, directory, given, dict.fromkeys(given, ON_HPC))
    return point(way, seed, runs, CORES, [given[0].done - at], ways.wrong(tasks, directory))


def _script(words: str) -> str:
    inside = f"apptainer --quiet exec --bind {TALLY} {LAYOUT.image} /bin/sh -c"
    return f'#!/bin/bash\nexec {inside} "{words}"\n'


def _sbatch(task: Task, *more: str) -> list[str]:
    asked = ("--nodes=1", "--ntasks=1", f"--cpus-per-task={task.cores}", "--mem=100M", f"--partition={QUEUE}")
    return [
        *as_user(ADA),
        "sbatch",
        "--parsable",
        *asked,
        "--export=NONE",
        "--output=/dev/null",
        f"--chdir={TALLY}",
        *more,
    ]
