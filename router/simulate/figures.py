"""The figures of what was played: for each destination and for all, of one seed and over seeds.

Pure. Slowdown is (wait + run) / run, bounded: a run of less than 10 s counts as 10 s, and none is below 1 (D. G. Feitelson
and L. Rudolph, "Metrics and Benchmarking for Parallel Job Scheduling", JSSPP 1998).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Final

from router.notation.quantiles import quantile
from router.simulate.capacity import Pool
from router.simulate.play import CLOUD, Played, Run
from router.values import unchanging

ALL: Final = "all"
BOUND: Final = 10.0
_HOUR: Final = 3600.0


@unchanging
class Figures:
    """Of the Jobs of one destination, in one playing. NaN: there is none.

    :param share: of all core-hours
    :param wait: seconds from a Pod's making to its beginning: median, like ``slowdown``
    :param utilisation: of the cores of its queue's nodes, from the first arrival to the last end
    :param peak: most cores at once
    :param makespan: seconds from the first arrival to the last end of its Pods
    :param cut: Pods that their walltime or deadline ended
    """

    jobs: float
    pods: float
    core_hours: float
    share: float
    wait: float
    wait_p95: float
    slowdown: float
    slowdown_p95: float
    utilisation: float
    peak: float
    makespan: float
    cut: float


@unchanging
class Spread:
    """The median over seeds, the lowest and the highest."""

    median: float
    low: float
    high: float


NAMES: Final = tuple(field.name for field in fields(Figures))


def figures(played: Played, pools: Iterable[Pool], cloud: int | None, begin: float) -> dict[str, Figures]:
    """The figures by destination, ``ALL`` last: queues in their order, the cloud, then what ran nowhere.

    :param cloud: thousandths of cores; None if unlimited
    :param begin: the first arrival, in seconds
    """
    runs: dict[str, list[Run]] = {}
    for run in played.runs:
        runs.setdefault(run.to, []).append(run)
    sizes: dict[str, float] = {queue: float(pool.nodes * pool.cores) for pool in pools for queue in pool.queues}
    if cloud is not None:
        sizes[CLOUD] = cloud / 1000
    end = max([run.ended for run in played.runs], default=begin)
    hours = sum([run.core_seconds for run in played.runs]) / _HOUR
    names = [name for name in (*sizes, CLOUD, *played.went) if name in played.went]
    found = {
        name: _figures(runs.get(name, ()), played.went[name], sizes.get(name, math.nan), hours, (begin, end))
        for name in dict.fromkeys(names)
    }
    return found | {ALL: _figures(played.runs, sum(played.went.values()), math.nan, hours, (begin, end))}


def _figures(runs: Sequence[Run], jobs: int, size: float, hours: float, span: tuple[float, float]) -> Figures:
    waits = sorted([run.wait for run in runs])
    slowdowns = sorted([slowdown(run) for run in runs])
    own = sum([run.core_seconds for run in runs]) / _HOUR
    capacity = size * (span[1] - span[0]) / _HOUR
    return Figures(
        jobs=jobs,
        pods=len(runs),
        core_hours=own,
        share=own / hours if hours else math.nan,
        wait=_median(waits),
        wait_p95=_quantile(waits, 0.95),
        slowdown=_median(slowdowns),
        slowdown_p95=_quantile(slowdowns, 0.95),
        utilisation=own / capacity if capacity else math.nan,
        peak=peak(runs),
        makespan=max([run.ended for run in runs], default=math.nan) - span[0],
        cut=sum([run.cut for run in runs]),
    )


def slowdown(run: Run) -> float:
    """The bounded slowdown of a Pod."""
    length = run.ended - run.began
    return max(1.0, (run.wait + length) / max(length, BOUND))


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def _quantile(ordered: Sequence[float], share: float) -> float:
    found = quantile(ordered, share)
    return math.nan if found is None else found


def peak(runs: Iterable[Run]) -> float:
    """The most cores at once."""
    changes = sorted([change for run in runs for change in ((run.began, 1, run.cores), (run.ended, 0, -run.cores))])
    most = now = 0.0
    for _, _, cores in changes:
        now += cores
        most = max(most, now)
    return round(most, 3)


def over(seeds: Sequence[Mapping[str, Figures]]) -> dict[str, dict[str, Spread]]:
    """The spread of each figure over seeds, by destination. One that a seed lacks counts as without Jobs there."""
    names = dict.fromkeys(name for one in seeds for name in one if name != ALL)
    nothing = _figures((), 0, math.nan, 1.0, (0.0, 0.0))
    return {
        where: {name: spread([getattr(one.get(where, nothing), name) for one in seeds]) for name in NAMES}
        for where in (*names, ALL)
    }


def spread(values: Iterable[float]) -> Spread:
    """The median and the ends, without NaN; NaN if nothing is left."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return Spread(math.nan, math.nan, math.nan)
    return Spread(statistics.median(known), min(known), max(known))


def confidence(seeds: int) -> float:
    """How sure it is that the median over all possible seeds lies within the ends of so many (from 2 on).

    Each seed lies above it or below it with the same chance: the ends miss it only if all lie on one side.
    """
    return 1 - 0.5 ** (seeds - 1)
