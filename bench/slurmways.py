"""The ways in which ``bench.slurmefficiency`` and ``bench.slurmlatency`` give jobs to the bed's Slurm.

By hand each is an ``sbatch`` with one ``apptainer exec``. Otherwise it is an ordinary Job, which a user applies to a real
API server. Each container notes when it begins and ends.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import slurmtasks
from bench.onbed import OnBed
from bench.slurmpage import Point, point
from bench.slurmtasks import Task
from bench.whole import JOBS, PODS, run, until
from router.controlplane import cloudnode
from router.simulate.play import CLOUD, Run
from tests.agent.bed.site import ADA, LAYOUT, NODES, QUEUE, SITE, TALLY, BedSite, as_user

ON_HPC = f"{SITE}/{QUEUE}"
CORES_OF_A_NODE, NODES_OF_THE_BED = int(str(NODES["cpusPerNode"])), int(str(NODES["nodes"]))
CORES = NODES_OF_THE_BED * CORES_OF_A_NODE
_SECONDS = 1800.0
_AT_ONCE = 16
"""Threads that give jobs, so that one that takes long delays no other."""


class Site(BedSite):
    """The bed, to which everything goes but small Jobs with a label."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        small = f"'{slurmtasks.SPLIT}' in job.labels && job.cpus <= {slurmtasks.SMALL}"
        rules = [
            {"name": "small", "when": small, "cloud": True},
            {"name": "rest", "when": "true", "hpc": [{"queue": QUEUE}]},
        ]
        return {**super().documents(), "rules.yaml": {"rules": rules}}


@dataclass(frozen=True)
class Given:
    """When a job was handed over and when that was done, in seconds since this machine's start; what came back."""

    at: float
    done: float
    answer: str


# --- by hand ----------------------------------------------------------------------------------------------------


def by_hand(tasks: Sequence[Task], seed: int, way: str) -> tuple[Point, float]:
    """The figures, and for how many seconds a job has held its cores, on average."""
    directory = _directory(way, seed)

    def give(task: Task) -> str:
        script = _script(slurmtasks.words(task, str(directory)))
        return run(_sbatch(task, f"--time={task.minutes}"), script).strip()

    given = _give(tasks, give)
    _await_end(tasks, directory)
    ids = [one.answer for one in given.values()]
    until(lambda: not run(["squeue", "--noheader", f"--jobs={','.join(ids)}"]).strip(), "Slurm's jobs", 60, pause=1.0)
    queued = [one.done - one.at for one in given.values()]
    runs = _runs(tasks, directory, given, dict.fromkeys(given, ON_HPC))
    found = point(way, seed, runs, CORES, queued, _wrong(tasks, directory))
    said = run(
        ["sacct", "--noheader", "--allocations", "--parsable2", "--format=ElapsedRaw", f"--jobs={','.join(ids)}"]
    )
    return found, statistics.fmean(map(float, said.split()))


def as_array(tasks: Sequence[Task], seed: int, way: str) -> Point:
    """The figures of one array: all jobs are alike, and come at once. What each takes is not told one by one."""
    directory, first = _directory(way, seed), tasks[0]
    script = _script(slurmtasks.words(first, str(directory), "$SLURM_ARRAY_TASK_ID"))
    asked = [f"--time={first.minutes}", f"--array=0-{len(tasks) - 1}"]
    at = _now()
    answer = run(_sbatch(first, *asked), script).strip()
    given = dict.fromkeys([task.number for task in tasks], Given(at, _now(), answer))
    _await_end(tasks, directory)
    runs = _runs(tasks, directory, given, dict.fromkeys(given, ON_HPC))
    return point(way, seed, runs, CORES, [given[0].done - at], _wrong(tasks, directory))


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


# --- through Batchgate ------------------------------------------------------------------------------------------


def through(
    bed: OnBed,
    tasks: Sequence[Task],
    seed: int,
    way: str,
    *,
    split: bool,
    while_they_run: AbstractContextManager[None] | None = None,
) -> Point:
    """The figures of Jobs that a user applies.

    :param split: small ones stay in the cloud
    :param while_they_run: what goes on until the last container has ended
    """
    directory = _directory(way, seed)
    before = len(bed.stack.agent.lines())

    def give(task: Task) -> str:
        name = f"task-{task.number}"
        bed.api.create(JOBS, slurmtasks.manifest(task, name, str(directory), str(TALLY), split=split))
        return name

    try:
        with while_they_run or nullcontext():
            given = _give(tasks, give)
            _await_end(tasks, directory)
        until(lambda: _complete(bed) == len(tasks), f"{way}: all Jobs complete", _SECONDS, pause=1.0)
        nodes = dict(_nodes(bed))
        where = {number: CLOUD if nodes[one.answer] == cloudnode.NAME else ON_HPC for number, one in given.items()}
        runs = _runs(tasks, directory, given, where)
        queued = list(_queued(bed.stack.agent.lines()[before:], given))
        return point(way, seed, runs, CORES, queued, _wrong(tasks, directory))
    finally:
        _forget(bed)


def _complete(bed: OnBed) -> int:
    return sum(one["status"].get("succeeded", 0) for page, _ in bed.api.pages(JOBS) for one in page)


def _nodes(bed: OnBed) -> Iterator[tuple[str, str]]:
    """The Jobs' names, and where the Pod of each has run."""
    for page, _ in bed.api.pages(PODS):
        for pod in page:
            if pod["status"]["phase"] == "Succeeded":
                yield pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], pod["spec"]["nodeName"]


def _queued(lines: Iterable[Mapping[str, Any]], given: Mapping[int, Given]) -> Iterator[float]:
    """Seconds from when a Job was applied to when the agent knew its batch job's id, by the agent's log."""
    since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    at = {one.answer: one.at + since for one in given.values()}
    for line in lines:
        if line["message"] == "submitted":
            name = str(line["pod"]).rpartition("/")[2].rpartition("-")[0]
            yield datetime.fromisoformat(str(line["time"])).timestamp() - at[name]


def _forget(bed: OnBed) -> None:
    """Delete all Jobs, and wait until they are gone with their Pods."""
    words = ("delete", "jobs", "--all", "--namespace=default", "--cascade=foreground", "--wait=true", "--timeout=600s")
    bed.stack.plane.kubectl(*words)


# --- all ways ---------------------------------------------------------------------------------------------------


def _directory(way: str, seed: int) -> Path:
    """An empty directory, in which every container may write."""
    found = TALLY / f"efficiency-{way.replace(' ', '-').replace(',', '')}-{seed}"
    subprocess.run(["rm", "-rf", str(found)], check=True)
    found.mkdir(parents=True)
    found.chmod(0o1777)
    return found


def _give(tasks: Sequence[Task], give: Callable[[Task], str]) -> dict[int, Given]:
    """Hand each job over when it comes."""
    begin = _now()

    def one(task: Task) -> Given:
        at = _now()
        answer = give(task)
        return Given(at, _now(), answer)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        futures = {}
        for task in tasks:
            time.sleep(max(0.0, begin + task.arrival - _now()))
            futures[task.number] = threads.submit(one, task)
    return {number: future.result() for number, future in futures.items()}


def _now() -> float:
    """As /proc/uptime has it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _await_end(tasks: Sequence[Task], directory: Path) -> None:
    def ended() -> int:
        return sum(path.stat().st_size > 0 for path in directory.glob("*.ended"))

    until(lambda: ended() == len(tasks), f"{directory}: all ends", _SECONDS, pause=0.5)


def _runs(
    tasks: Sequence[Task], directory: Path, given: Mapping[int, Given], where: Mapping[int, str]
) -> tuple[Run, ...]:
    """What has run, from when it was given: the container that ended."""
    return tuple(
        Run(
            task.number,
            where[task.number],
            given[task.number].at,
            _noted(directory / f"{task.number}.begun")[-1],
            _noted(directory / f"{task.number}.ended")[-1],
            task.cores,
            cut=False,
        )
        for task in tasks
    )


def _noted(path: Path) -> list[float]:
    return [float(line.split()[0]) for line in path.read_text().splitlines()]


def _wrong(tasks: Sequence[Task], directory: Path) -> tuple[int, int]:
    """How many jobs have begun again before their end, and how many after it."""
    begun = [len(_noted(directory / f"{task.number}.begun")) for task in tasks]
    ended = [len(_noted(directory / f"{task.number}.ended")) for task in tasks]
    again = sum(many > 1 >= ends for many, ends in zip(begun, ended, strict=True))
    return again, sum(ends > 1 for ends in ended)
