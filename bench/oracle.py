"""Chooses the Jobs that go to the cloud by what nobody can know: how long each runs, and what else arrives.

Pure. The best choice cannot be worked out, as each choice changes what all others are worth. So it is searched for, from
the choice that a policy has made. In a step some Jobs come back that have saved little waiting for their cost, and
others go in their place. All is played again, and the better choice stays.
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

from router.simulate.play import Played, Run

_PARTS = (0.01, 0.3)
"""The least and the most of the budget that a step gives to other Jobs."""
_LUCK = 2.0
"""A step may take a Job for worth so many times as much or as little as it seems, to the power of two."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may go to the cloud: Jobs of at most so many cores, which together use so many core-seconds at most."""

    cores: float
    core_seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The numbers of the Jobs that go to the cloud, and what came of all."""

    jobs: frozenset[int]
    played: Played

    @property
    def wait(self) -> float:
        """The mean wait of all Jobs, in seconds."""
        return statistics.fmean(run.wait for run in self.played.runs)


def searched(
    first: Choice, replay: Callable[[frozenset[int]], Played], limits: Limits, machine: float, tries: int, seed: int
) -> Choice:
    """The choice with the shortest mean wait among the first one and those of so many steps from it.

    :param first: keeps the limits
    :param replay: plays all Jobs with these in the cloud
    :param machine: cores of the HPC nodes
    """
    luck, best = random.Random(seed), first
    for _ in range(tries):
        jobs = _step(best, limits, machine, luck)
        found = Choice(jobs, replay(jobs))
        best = min(best, found, key=lambda one: one.wait)
    return best


def at_random(runs: Collection[Run], limits: Limits, seed: int) -> frozenset[int]:
    """Jobs within the limits that chance has chosen: what the same core-hours are worth without looking at anything."""
    costs = {run.job: run.core_seconds for run in runs if run.cores <= limits.cores}
    order = sorted(costs)
    random.Random(seed).shuffle(order)
    return _filled(order, costs, limits.core_seconds)


def _step(choice: Choice, limits: Limits, machine: float, luck: random.Random) -> frozenset[int]:
    """Another choice: some Jobs of the budget's worth come back, and as much goes in their place."""
    costs = {run.job: run.core_seconds for run in choice.played.runs if run.cores <= limits.cores}
    seems = {
        job: worth * 2.0 ** luck.uniform(-_LUCK, _LUCK) for job, worth in worths(choice.played.runs, machine).items()
    }
    inside = sorted(choice.jobs, key=lambda job: (seems[job], job))
    outside = sorted(costs.keys() - choice.jobs, key=lambda job: (-seems[job], job))
    least, most = _PARTS
    back = _filled(inside, costs, limits.core_seconds * least * (most / least) ** luck.random())
    left = choice.jobs - back
    room = limits.core_seconds - sum(costs[job] for job in left)
    return left | _filled([job for job in (*outside, *reversed(inside)) if job not in left], costs, room)


def _filled(jobs: Sequence[int], costs: dict[int, float], room: float) -> frozenset[int]:
    """The first of the Jobs that have room together; one that is too large is passed over."""
    found = set()
    for job in jobs:
        if costs[job] <= room:
            found.add(job)
            room -= costs[job]
    return frozenset(found)


def worths(runs: Collection[Run], machine: float) -> dict[int, float]:
    """What each Job would save if it went elsewhere, in seconds of waiting for each of its core-seconds.

    It saves its own wait, and to each Job that waits while it runs the part of the machine that it holds.
    """
    waited = _waited(runs)
    return {
        run.job: (run.wait + run.cores / machine * (waited(run.ended) - waited(run.began))) / max(1.0, run.core_seconds)
        for run in runs
    }


def _waited(runs: Collection[Run]) -> Callable[[float], float]:
    """How many seconds all Jobs together have waited until a moment."""
    changes = sorted([(run.made, 1) for run in runs] + [(run.began, -1) for run in runs])
    moments = [moment for moment, _ in changes]
    numbers = list(accumulate(map(itemgetter(1), changes)))
    spans = (number * (after - before) for number, (before, after) in zip(numbers, pairwise(moments), strict=False))
    totals = [0.0, *accumulate(spans)]

    def until(moment: float) -> float:
        place = bisect_right(moments, moment) - 1
        return 0.0 if place < 0 else totals[place] + numbers[place] * (moment - moments[place])

    return until
