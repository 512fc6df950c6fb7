"""The ways in which a benchmark gives jobs to a real batch system: by hand, and as Jobs of a real API server.

For ``bench.study`` and ``bench.slurmlatency``. Each container notes when it begins and ends.
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

from bench import drawn
from bench.drawn import Json, Task
from bench.studypage import Point, point
from bench.whole import JOBS, PODS, until
from router.controlplane import cloudnode
from router.controlplane.plane import ControlPlane
from router.kube.client import Api
from router.simulate.play import CLOUD, Run

_SECONDS = 1800.0
_AT_ONCE = 16
"""Threads that give jobs, so that one that takes long delays no other."""

_SELDOM = 20.0
"""Seconds between two looks at which Jobs have failed: a list of all costs the control plane."""


@dataclass(frozen=True)
class ByHand:
    """How a user gives jobs without Batchgate.

    :param submit: hand over a job whose container runs these words of a shell; returns its id
    :param left: whether one of these jobs still holds cores
    :param held: for how many seconds each has held its cores
    """

    submit: Callable[[Task, str], str]
    left: Callable[[Sequence[str]], bool]
    held: Callable[[Sequence[str]], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A batch system, and the cluster in front of it.

    :param api: acts as a user who may edit the namespace
    :param lines: the agent's log
    :param queue: as ``site/queue``
    :param nodes: with ``cores`` cores each
    :param shared: a directory of this machine and of all nodes, which containers see under the same path
    :param documents: the policy's files
    :param rest: waits until nothing of an earlier way slows the next one
    """

    plane: ControlPlane
    api: Api
    lines: Callable[[], list[dict[str, Any]]]
    hand: ByHand
    queue: str
    nodes: int
    cores: int
    shared: Path
    documents: Mapping[str, Any]
    rest: Callable[[], object] = lambda: None

    @property
    def all_cores(self) -> int:
        return self.nodes * self.cores


@dataclass(frozen=True)
class Given:
    """When a job was handed over and when that was done, in seconds since this machine's start; what came back."""

    at: float
    done: float
    answer: str


def by_hand(place: Place, tasks: Sequence[Task], seed: int, way: str) -> tuple[Point, float]:
    """The figures, and for how many seconds a job has held its cores, on average."""
    place.rest()
    directory = empty_directory(place.shared, way, seed)
    given = _give(tasks, lambda task: place.hand.submit(task, drawn.words(task, str(directory))))
    await_end(tasks, directory)
    ids = [one.answer for one in given.values()]
    until(lambda: not place.hand.left(ids), "the batch system's jobs", 60, pause=1.0)
    queued = [one.done - one.at for one in given.values()]
    runs = runs_of(tasks, directory, given, dict.fromkeys(given, place.queue))
    found = point(way, seed, runs, place.all_cores, queued, wrong(tasks, directory))
    return found, statistics.fmean(place.hand.held(ids))


def through(
    place: Place,
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
    place.rest()
    directory = empty_directory(place.shared, way, seed)
    before = len(place.lines())

    def give(task: Task) -> str:
        place.api.create(JOBS, drawn.manifest(task, str(directory), str(place.shared), split=split))
        return drawn.job_name(task)

    try:
        with while_they_run or nullcontext():
            given = _give(tasks, give)
            await_end(tasks, directory, given_up=lambda: _over(place.api, "Failed"))
        until(
            lambda: len(_over(place.api, "Complete") | _over(place.api, "Failed")) == len(tasks),
            f"{way}: all Jobs over",
            _SECONDS,
            pause=1.0,
        )
        for line in failures(_pods(place.api), tasks, directory):
            print(f"{way}, seed {seed}: {line}", flush=True)
        nodes = {_job(pod): pod["spec"]["nodeName"] for pod in _pods(place.api)}
        where = {number: CLOUD if nodes[one.answer] == cloudnode.NAME else place.queue for number, one in given.items()}
        runs = runs_of([one for one in tasks if _ends(one, directory)], directory, given, where)
        queued = list(_queued(place.lines()[before:], given))
        failed = len(_over(place.api, "Failed"))
        return point(way, seed, runs, place.all_cores, queued, wrong(tasks, directory, failed))
    finally:
        place.plane.kubectl("delete", "jobs", "--all", "--namespace=default", "--cascade=foreground", "--wait=false")
        until(lambda: not _left(place.api), f"{way}: all Jobs gone", _SECONDS, pause=1.0)


def _left(api: Api) -> bool:
    return any(page for path in (JOBS, PODS) for page, _ in api.pages(path))


def _over(api: Api, condition: str) -> set[str]:
    """The names of the Jobs with this condition."""
    return {
        one["metadata"]["name"]
        for page, _ in api.pages(JOBS)
        for one in page
        if any(found["type"] == condition for found in one["status"].get("conditions", ()))
    }


def _pods(api: Api) -> Sequence[Json]:
    """A Job's Pod that succeeded comes after those that failed."""
    found = [pod for page, _ in api.pages(PODS) for pod in page if "nodeName" in pod["spec"]]
    return sorted(found, key=lambda pod: str(pod["status"]["phase"] == "Succeeded"))


def _job(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"])


def failures(pods: Iterable[Json], tasks: Sequence[Task], directory: Path) -> Iterator[str]:
    """For each reason how many Pods failed, how many of their Jobs never succeeded, and how many of these had come to their end."""
    found = list(pods)
    ended = {drawn.job_name(task) for task in tasks if _ends(task, directory)}
    well = {_job(pod) for pod in found if pod["status"]["phase"] == "Succeeded"}
    reasons: dict[str, list[str]] = {}
    for pod in found:
        if pod["status"]["phase"] == "Failed":
            reasons.setdefault(pod["status"].get("reason") or "without a reason", []).append(_job(pod))
    for reason, jobs in sorted(reasons.items()):
        given_up = set(jobs) - well
        ends = f"{len(given_up)} for good, {len(given_up & ended)} though the container came to its end"
        yield f"failed Pods: {len(jobs)} {reason}; Jobs that failed: {ends}"


def _queued(lines: Iterable[Mapping[str, Any]], given: Mapping[int, Given]) -> Iterator[float]:
    """Seconds from when a Job was applied to when the agent knew its first batch job's id, by the agent's log."""
    since = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    at = {one.answer: one.at + since for one in given.values()}
    for line in lines:
        if line["message"] == "submitted":
            job = str(line["pod"]).rpartition("/")[2].rpartition("-")[0]
            if (applied := at.pop(job, None)) is not None:
                yield datetime.fromisoformat(str(line["time"])).timestamp() - applied


# --- all ways ---------------------------------------------------------------------------------------------------


def empty_directory(shared: Path, way: str, seed: int) -> Path:
    """A new directory, in which every container may write."""
    found = shared / f"efficiency-{way.replace(' ', '-').replace(',', '')}-{seed}"
    subprocess.run(["rm", "-rf", str(found)], check=True)
    found.mkdir(parents=True)
    found.chmod(0o1777)
    return found


def _give(tasks: Sequence[Task], give: Callable[[Task], str]) -> dict[int, Given]:
    """Hand each job over when it comes."""
    begin = now()

    def one(task: Task) -> Given:
        at = now()
        answer = give(task)
        return Given(at, now(), answer)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        futures = {}
        for task in tasks:
            time.sleep(max(0.0, begin + task.arrival - now()))
            futures[task.number] = threads.submit(one, task)
    return {number: future.result() for number, future in futures.items()}


def now() -> float:
    """As /proc/uptime has it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def await_end(tasks: Sequence[Task], directory: Path, given_up: Callable[[], set[str]] = set[str]) -> None:
    """Wait until all containers have noted that they ended.

    :param given_up: names of Jobs whose container need not end any more, which is asked seldom
    """
    awaited, again = {drawn.job_name(task): task for task in tasks}, time.monotonic() + _SELDOM

    def ended() -> bool:
        nonlocal again
        for done in [one for one, task in awaited.items() if _ends(task, directory)]:
            del awaited[done]
        if awaited and time.monotonic() > again:
            for failed in given_up() & awaited.keys():
                del awaited[failed]
            again = time.monotonic() + _SELDOM
        return not awaited

    until(ended, f"{directory}: all ends", _SECONDS, pause=0.5)


def _ends(task: Task, directory: Path) -> int:
    """How often the task's container has come to its end."""
    path = directory / f"{task.number}.ended"
    return len(_noted(path)) if path.exists() else 0


def runs_of(
    tasks: Sequence[Task], directory: Path, given: Mapping[int, Given], where: Mapping[int, str]
) -> tuple[Run, ...]:
    """What has run, from when it was given: the container that ended."""

    def run(task: Task) -> Run:
        ended = _noted(directory / f"{task.number}.ended")[-1]
        begun = max(one for one in _noted(directory / f"{task.number}.begun") if one <= ended)
        return Run(task.number, where[task.number], given[task.number].at, begun, ended, task.cores, cut=False)

    return tuple(run(task) for task in tasks)


def _noted(path: Path) -> list[float]:
    return [float(line.split()[0]) for line in path.read_text().splitlines()]


def wrong(tasks: Sequence[Task], directory: Path, failed: int = 0) -> tuple[int, int, int]:
    """How many jobs have begun again before their end, how many have ended and run once more, and how many are shown as failed."""
    noted = [
        [_noted(path) if (path := directory / f"{task.number}.{word}").exists() else [] for word in ("begun", "ended")]
        for task in tasks
    ]
    twice = [len(ended) > 1 or bool(ended and max(begun) > ended[0]) for begun, ended in noted]
    again = sum(len(begun) > 1 and not more for (begun, _), more in zip(noted, twice, strict=True))
    return again, sum(twice), failed
