"""Gives the same jobs to the bed's Slurm by hand, through Batchgate, and with small ones in the cloud; and to the model.

``python -m bench.slurmefficiency`` draws jobs by a published model (``bench.lublin``), seconds for hours. By hand each is an
``sbatch`` with one ``apptainer exec``. Otherwise it is an ordinary Job, which a user applies to a real API server at the same
moment. The cloud has a real node. All processes share this machine, and they run also while jobs are given by hand.

Each container notes when it begins and ends. With ``--kill SECONDS`` the jobs are given once more, while the agent and
slurmctld are killed by turns. The bed has to be up (``make bed``, docs/bed.md); without it this is skipped. Figures go to
build/bench/slurmefficiency.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import slurmtasks
from bench.onbed import OnBed, demand_standing, on_bed
from bench.report import DIRECTORY
from bench.slurmpage import Point, kept, point, table
from bench.slurmtasks import Task
from bench.whole import JOBS, PODS, machine, run, until
from router.controlplane import cloudnode
from router.simulate.play import CLOUD, Run
from tests.agent.bed import faults
from tests.agent.bed.site import ADA, LAYOUT, NODES, OWN_KEYS, QUEUE, SITE, TALLY, BedSite, as_user

HAND, THROUGH, SPLIT, KILLED = (
    "by hand",
    "through Batchgate",
    "small ones in the cloud",
    "through Batchgate, with kills",
)
MODEL, MODEL_SPLIT = "model: all to HPC", "model: small ones in the cloud"
ON_HPC = f"{SITE}/{QUEUE}"
LOST_SECONDS = 60
"""After which the agent holds a job that Slurm has forgotten to be lost."""
_NODES, _CORES = int(str(NODES["nodes"])), int(str(NODES["cpusPerNode"]))
_SECONDS = 1800.0
_AT_ONCE = 16
"""Threads that give jobs, so that one that takes long delays no other."""
_AWAY = 3.0
"""Seconds for which what was killed stays away."""


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


def main() -> None:
    """Print the table, which is written as figures too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--hour", type=float, default=5.0, help="seconds for one hour of the model of jobs")
    parser.add_argument("--kill", type=float, default=0.0, help="seconds from one kill to the next; 0 for none")
    asked = parser.parse_args()
    demand_standing()
    points, loads = [], machine("before")
    with on_bed(OWN_KEYS, raised_limits=False, kind=Site, plain_node=False, lost_seconds=LOST_SECONDS) as bed:
        cloudnode.join(bed.stack.plane, cloudnode.Kind.REAL)
        for seed in range(1, asked.seeds + 1):
            tasks = slurmtasks.drawn(asked.jobs, asked.load, seed, asked.hour, nodes=_NODES, cores=_CORES)
            points += _seed(bed, tasks, seed, asked.kill)
            loads += machine(f"after seed {seed}")
            figures = {"points": [asdict(one) for one in points], "machine": [asdict(one) for one in loads]}
            DIRECTORY.mkdir(parents=True, exist_ok=True)
            (DIRECTORY / "slurmefficiency.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{table(points)}\n")
    sys.exit(not kept(points, HAND, THROUGH))


def _seed(bed: OnBed, tasks: Sequence[Task], seed: int, kill: float) -> list[Point]:
    """All ways with one seed, each printed once it is known."""
    hand, held = _by_hand(tasks, seed)
    added = held - statistics.fmean([one.seconds for one in tasks])
    print(f"seed {seed}: a job by hand holds its cores for {added:.2f} s more than its container sleeps", flush=True)
    found = [hand, *_model(bed, tasks, seed, added)]
    found += [_through(bed, tasks, seed, way, split=way == SPLIT) for way in (THROUGH, SPLIT)]
    if kill:
        with _kills(bed, kill):
            found.append(_through(bed, tasks, seed, KILLED, split=False))
        faults.repair()
    print(table(found), flush=True)
    return found


def _model(bed: OnBed, tasks: Sequence[Task], seed: int, added: float) -> Iterator[Point]:
    for way, split in ((MODEL, False), (MODEL_SPLIT, True)):
        queue = slurmtasks.Queue(bed.stack.site.documents(), "ada", ON_HPC, _NODES, str(TALLY))
        found = slurmtasks.played(tasks, queue, added, split=split)
        yield point(way, seed, found.runs, _NODES * _CORES)


# --- by hand ----------------------------------------------------------------------------------------------------


def _by_hand(tasks: Sequence[Task], seed: int) -> tuple[Point, float]:
    """The figures, and for how many seconds a job has held its cores, on average."""
    directory = _directory(HAND, seed)

    def give(task: Task) -> str:
        inside = f"apptainer --quiet exec --bind {TALLY} {LAYOUT.image} /bin/sh -c"
        script = f"#!/bin/bash\nexec {inside} '{slurmtasks.words(task, str(directory))}'\n"
        asked = ["--nodes=1", "--ntasks=1", f"--cpus-per-task={task.cores}", f"--time={task.minutes}", "--mem=200M"]
        places = ["--export=NONE", "--output=/dev/null", f"--chdir={TALLY}"]
        return run([*as_user(ADA), "sbatch", "--parsable", f"--partition={QUEUE}", *asked, *places], script).strip()

    given = _give(tasks, give)
    _await_end(tasks, directory)
    ids = [one.answer for one in given.values()]
    until(lambda: not run(["squeue", "--noheader", f"--jobs={','.join(ids)}"]).strip(), "Slurm's jobs", 60, pause=1.0)
    queued = [one.done - one.at for one in given.values()]
    runs = _runs(tasks, directory, given, dict.fromkeys(given, ON_HPC))
    found = point(HAND, seed, runs, _NODES * _CORES, queued, _wrong(tasks, directory))
    said = run(
        ["sacct", "--noheader", "--allocations", "--parsable2", "--format=ElapsedRaw", f"--jobs={','.join(ids)}"]
    )
    return found, statistics.fmean(map(float, said.split()))


# --- through Batchgate ------------------------------------------------------------------------------------------


def _through(bed: OnBed, tasks: Sequence[Task], seed: int, way: str, *, split: bool) -> Point:
    directory = _directory(way, seed)
    before = len(bed.stack.agent.lines())

    def give(task: Task) -> str:
        name = f"task-{task.number}"
        bed.api.create(JOBS, slurmtasks.manifest(task, name, str(directory), str(TALLY), split=split))
        return name

    try:
        given = _give(tasks, give)
        _await_end(tasks, directory)
        until(lambda: _complete(bed) == len(tasks), f"{way}: all Jobs complete", _SECONDS, pause=1.0)
        nodes = dict(_nodes(bed))
        where = {number: CLOUD if nodes[one.answer] == cloudnode.NAME else ON_HPC for number, one in given.items()}
        runs = _runs(tasks, directory, given, where)
        queued = list(_queued(bed.stack.agent.lines()[before:], given))
        return point(way, seed, runs, _NODES * _CORES, queued, _wrong(tasks, directory))
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


@contextlib.contextmanager
def _kills(bed: OnBed, seconds: float) -> Iterator[None]:
    """Within the block the agent and slurmctld are killed by turns, and started again after some seconds."""
    over = threading.Event()

    def kill() -> None:
        agent = True
        while not over.wait(seconds):
            if agent:
                bed.stack.agent.kill()
                time.sleep(_AWAY)
                bed.stack.agent.start()
            else:
                faults.kill("slurmctld")
                time.sleep(_AWAY)
                faults.start("slurmctld")
            agent = not agent

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


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
    until(lambda: len(list(directory.glob("*.ended"))) == len(tasks), f"{directory}: all ends", _SECONDS, pause=0.5)


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


if __name__ == "__main__":
    main()
