"""Plays Jobs: they arrive, are judged, wait, run and end, event after event.

Pure, with a state. Each Pod is a batch job, or a Pod of the cloud. A Job has as many Pods at once as its parallelism;
the next one is made when one ends.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from router.policy.decision import QueueState
from router.replay import cases
from router.replay.outcomes import UNTOUCHED
from router.simulate.capacity import Pool
from router.simulate.cloud import Cloud, CloudPod
from router.simulate.easy import Batch, Easy
from router.simulate.jobs import Assumed, Job, pods_of, runtime
from router.simulate.judging import Judge, Verdict, needs
from router.simulate.nodes import Needs, Nodes
from router.values import unchanging

CLOUD: Final = "cloud"
_ENDS, _ARRIVES = 0, 1
"""What happens first of what happens at the same time."""


@unchanging
class World:
    """What is played in.

    :param cloud: thousandths of cores; None for as many as are asked for
    """

    pools: tuple[Pool, ...]
    cloud: int | None
    assumed: Assumed


@unchanging
class Run:
    """A Pod that ran: its Job's number, where, and when it was made, began and ended.

    :param to: ``cloud``, or ``site/queue``
    :param cores: that it asked for
    :param cut: whether its walltime or deadline ended it
    """

    job: int
    to: str
    made: float
    began: float
    ended: float
    cores: float
    cut: bool

    @property
    def wait(self) -> float:
        """Seconds."""
        return self.began - self.made

    @property
    def core_seconds(self) -> float:
        """What it used."""
        return (self.ended - self.began) * self.cores


@unchanging
class Played:
    """What came of all Jobs.

    :param went: how many Jobs went where; also ``deny`` and ``untouched``
    :param kept: Jobs that a rule wanted on HPC and that stayed, by rule, with an example and what was in its way
    :param stuck: Jobs that no node of the model can hold, by where, with an example
    :param missing: facts that decisions lack, and for how many Jobs
    :param rules: how many Jobs each rule decided
    """

    runs: tuple[Run, ...]
    went: dict[str, int]
    kept: dict[str, tuple[int, str]]
    stuck: dict[str, tuple[int, str]]
    missing: dict[str, int]
    rules: dict[str, int]


@dataclass(slots=True)
class _Open:
    """A Job whose Pods are not all made yet."""

    number: int
    job: Job
    verdict: Verdict
    left: int
    limit: float
    needs: Needs | None
    cores: float
    pods: int = 0


@dataclass(slots=True)
class _Pod:
    job: _Open
    made: float
    began: float
    length: float
    cut: bool


@dataclass(slots=True)
class _Counts:
    went: Counter[str] = field(default_factory=Counter)
    kept: dict[str, tuple[int, str]] = field(default_factory=dict)
    stuck: dict[str, tuple[int, str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)


def play(judge: Judge, jobs: Sequence[Job], world: World, seed: int) -> Played:
    """Play the Jobs, in the order of their arrival, until the last one has ended."""
    return _Play(judge, world, seed).play(jobs)


class _Play:
    def __init__(self, judge: Judge, world: World, seed: int) -> None:
        self._judge, self._world, self._seed = judge, world, seed
        self._easy = {pool: Easy(Nodes(pool.nodes, pool.cores)) for pool in world.pools}
        self._pools = {queue: pool for pool in world.pools for queue in pool.queues}
        self._keys = {queue: (queue.partition("/")[0], queue.partition("/")[2]) for queue in self._pools}
        self._cloud = Cloud(world.cloud)
        self._events: list[tuple[float, int, int]] = []
        self._pods: dict[int, _Pod] = {}
        self._numbers = count()
        self._runs: list[Run] = []
        self._counts = _Counts()

    def play(self, jobs: Sequence[Job]) -> Played:
        self._events = [(job.arrival, _ARRIVES, number) for number, job in enumerate(jobs)]
        while self._events:
            now, kind, number = heapq.heappop(self._events)
            if kind == _ENDS:
                self._end(number, now)
                if self._events and self._events[0][:2] == (now, _ENDS):
                    continue
            else:
                self._arrive(jobs[number], number, now)
            self._start(now)
        counts = self._counts
        return Played(
            tuple(self._runs), dict(counts.went), counts.kept, counts.stuck, dict(counts.missing), dict(counts.rules)
        )

    # --- a Job arrives ---

    def _arrive(self, job: Job, number: int, now: float) -> None:
        verdict = self._judge.verdict(job, number, self._states(now))
        counts = self._counts
        counts.rules[verdict.rule] += 1
        counts.missing.update(verdict.missing)
        if verdict.reason:
            cases.count(counts.kept, verdict.rule, f"{job.case.name} ({job.case.place}): {verdict.reason}")
        where = verdict.queue or verdict.target
        counts.went[where] += 1
        if verdict.target not in {"deny", UNTOUCHED}:
            self._open(job, number, verdict, now)

    def _open(self, job: Job, number: int, verdict: Verdict, now: float) -> None:
        workload = self._judge.workload(job)
        if verdict.route is not None:
            pool, allocation = self._pools[verdict.queue], verdict.route.allocation
            wanted = needs(verdict.route, pool)
            cores = float(sum(chunk.count * chunk.ncpus for chunk in allocation.chunks))
            holds, limit = self._easy[pool].nodes.holds(wanted), float(allocation.deadline)
        else:
            millis = workload.cpu.value if workload.cpu else 0
            wanted, cores, holds = None, millis / 1000, self._cloud.holds(millis)
            limit = float(workload.deadline.value) if workload.deadline else float("inf")
        if not holds:
            cases.count(self._counts.stuck, verdict.queue or verdict.target, f"{job.case.name} ({job.case.place})")
            return
        opened = _Open(number, job, verdict, pods_of(workload), limit, wanted, cores)
        for _ in range(min(workload.parallelism.value, opened.left)):
            self._make(opened, now)

    def _states(self, now: float) -> dict[tuple[str, str], QueueState]:
        if not self._judge.looks:
            return {key: QueueState(*key, up=True) for key in self._keys.values()}
        return {self._keys[queue]: self._state(queue, pool, now) for queue, pool in self._pools.items()}

    def _state(self, queue: str, pool: Pool, now: float) -> QueueState:
        easy = self._easy[pool]
        first = easy.first_waiting(queue)
        return QueueState(
            *self._keys[queue],
            up=True,
            free_nodes=easy.nodes.idle,
            queued_jobs=easy.queued[queue],
            running_jobs=easy.active[queue],
            wait_seconds=0 if first is None else int(now - first),
        )

    # --- a Pod is made, begins, ends ---

    def _make(self, opened: _Open, now: float) -> None:
        number = next(self._numbers)
        wanted = runtime(opened.job, opened.pods, self._world.assumed, self._seed)
        opened.left -= 1
        opened.pods += 1
        self._pods[number] = _Pod(opened, now, now, min(wanted, opened.limit), wanted > opened.limit)
        queue, route = opened.verdict.queue, opened.verdict.route
        if route is not None and opened.needs is not None:
            batch = Batch(number, queue, opened.needs, float(route.allocation.walltime))
            self._easy[self._pools[queue]].submit(batch, now)
        else:
            self._cloud.submit(CloudPod(number, round(opened.cores * 1000)))

    def _start(self, now: float) -> None:
        for easy in self._easy.values():
            for batch in list(easy.start(now)):
                self._begin(batch.number, now)
        for pod in self._cloud.start():
            self._begin(pod.number, now)

    def _begin(self, number: int, now: float) -> None:
        pod = self._pods[number]
        pod.began = now
        heapq.heappush(self._events, (now + pod.length, _ENDS, number))

    def _end(self, number: int, now: float) -> None:
        pod = self._pods.pop(number)
        opened = pod.job
        where = opened.verdict.queue or CLOUD
        self._runs.append(Run(opened.number, where, pod.made, pod.began, now, opened.cores, pod.cut))
        if opened.verdict.queue:
            self._easy[self._pools[where]].end(number)
        else:
            self._cloud.end(number)
        if opened.left:
            self._make(opened, now)
