"""The bed's Slurm for ``bench.slurmefficiency`` and ``bench.slurmlatency``: its policy, and jobs by hand.

By hand each is an ``sbatch`` with one ``apptainer exec``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bed.standing import variant
from bench import drawn, ways
from bench.drawn import Task
from bench.onbed import OnBed
from bench.studypage import Point, point
from bench.whole import run
from tests.agent.bed.site import ADA, LAYOUT, NODES, QUEUE, SITE, TALLY, BedSite, as_user

ON_HPC = f"{SITE}/{QUEUE}"
LARGEST_ARRAY = 1000
"""Jobs of one array: Slurm's ``MaxArraySize``, 1001 by default, is above the highest index (slurm.conf(5))."""


class Site(BedSite):
    """The bed, to which everything goes but small Jobs with a label."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = {**super().documents(), "rules.yaml": {"rules": drawn.rules(QUEUE)}}
        for queue in found["sites.yaml"]["sites"][0]["queues"]:
            queue["cpusPerNode"] = variant(LAYOUT).cores
        return found


def place(bed: OnBed) -> ways.Place:
    """The bed, where jobs are given."""
    return ways.Place(
        plane=bed.stack.plane,
        api=bed.api,
        lines=bed.stack.agent.lines,
        hand=ways.ByHand(_submit, _left, _held),
        queue=ON_HPC,
        nodes=int(str(NODES["nodes"])),
        cores=variant(LAYOUT).cores,
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


def as_array(tasks: Sequence[Task], seed: int, way: str, cores: int) -> Point:
    """The figures of jobs that are alike and come at once, in as few arrays as Slurm takes. What each holds is not told.

    :param cores: of all nodes
    """
    directory = ways.empty_directory(TALLY, way, seed)
    given: dict[int, ways.Given] = {}
    for first in range(0, len(tasks), LARGEST_ARRAY):
        given |= _give_array(tasks[first : first + LARGEST_ARRAY], str(directory))
    ways.await_end(tasks, directory)
    runs = ways.runs_of(tasks, directory, given, dict.fromkeys(given, ON_HPC))
    queued = [one.done - one.at for one in given.values()]
    return point(way, seed, runs, cores, queued, ways.wrong(tasks, directory))


def _give_array(tasks: Sequence[Task], directory: str) -> dict[int, ways.Given]:
    first = tasks[0]
    script = _script(drawn.words(first, directory, f"$((SLURM_ARRAY_TASK_ID + {first.number}))"))
    at = ways.now()
    answer = run(_sbatch(first, f"--time={first.minutes}", f"--array=0-{len(tasks) - 1}"), script).strip()
    return dict.fromkeys([task.number for task in tasks], ways.Given(at, ways.now(), answer))


def _script(words: str) -> str:
    inside = f"apptainer --quiet exec --bind {TALLY} {LAYOUT.image} /bin/sh -c"
    return f'#!/bin/bash\nexec {inside} "{words}"\n'


def _sbatch(task: Task, *more: str) -> list[str]:
    asked = (
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={task.cores}",
        f"--mem={drawn.MEBIBYTES}M",
        f"--partition={QUEUE}",
    )
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
