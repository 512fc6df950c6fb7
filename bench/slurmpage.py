"""The figures and the table of ``bench.slurmefficiency``.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from router.notation.quantiles import quantile
from router.simulate.figures import slowdown, spread
from router.simulate.play import CLOUD, Run
from router.simulate.reports import percent, ratio, told

LONGER = 1.03
"""How much longer the makespan through Batchgate may be than by hand."""


@dataclass(frozen=True)
class Point:
    """One way with one seed. Times in seconds, ``share`` of the core-seconds.

    :param queued: from when a job was given to when its batch job's id was known
    :param again: jobs whose container was started again after it was cut off
    :param doubled: jobs whose container came to its end more than once
    """

    way: str
    seed: int
    wait: float
    wait_p95: float
    slowdown: float
    slowdown_p95: float
    utilisation: float
    share: float
    makespan: float
    queued: float
    queued_p95: float
    again: int
    doubled: int


COLUMNS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "wait": ("mean wait", "{:.1f} s".format),
    "wait_p95": ("wait p95", "{:.1f} s".format),
    "slowdown": ("mean slowdown", ratio),
    "slowdown_p95": ("slowdown p95", ratio),
    "utilisation": ("HPC utilisation", percent),
    "share": ("cloud's core-seconds", percent),
    "makespan": ("makespan", "{:.1f} s".format),
    "queued": ("given to queued", "{:.2f} s".format),
    "queued_p95": ("the same, p95", "{:.2f} s".format),
    "again": ("started again", "{:.0f}".format),
    "doubled": ("ended twice", "{:.0f}".format),
}
"""Of the table, by figure: title, and how a value is shown."""


def point(
    way: str, seed: int, runs: Sequence[Run], cores: int, queued: Sequence[float] = (), wrong: tuple[int, int] = (0, 0)
) -> Point:
    """The figures of what has run.

    :param cores: of the HPC nodes
    :param queued: seconds
    :param wrong: how many were started again, and how many ended twice
    """
    begin, end = min(run.made for run in runs), max(run.ended for run in runs)
    waits, slowdowns = [run.wait for run in runs], [slowdown(run) for run in runs]
    used = {to: sum(run.core_seconds for run in runs if (run.to == CLOUD) == to) for to in (True, False)}
    return Point(
        way,
        seed,
        wait=statistics.fmean(waits),
        wait_p95=_quantile(waits, 0.95),
        slowdown=statistics.fmean(slowdowns),
        slowdown_p95=_quantile(slowdowns, 0.95),
        utilisation=used[False] / (cores * (end - begin)),
        share=used[True] / (used[True] + used[False]),
        makespan=end - begin,
        queued=_quantile(queued, 0.5),
        queued_p95=_quantile(queued, 0.95),
        again=wrong[0],
        doubled=wrong[1],
    )


def _quantile(values: Sequence[float], share: float) -> float:
    found = quantile(sorted(values), share)
    return float("nan") if found is None else found


def table(points: Sequence[Point]) -> str:
    """A table of Markdown: for each way the medians over seeds, with the lowest and the highest."""
    lines = [f"| way | {' | '.join(title for title, _ in COLUMNS.values())} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    for way in dict.fromkeys(one.way for one in points):
        own = [one for one in points if one.way == way]
        cells = [told(spread([getattr(one, name) for one in own]), show) for name, (_, show) in COLUMNS.items()]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def kept(points: Sequence[Point], before: str, after: str) -> bool:
    """Whether the bound on the makespan holds for the median of the seeds; prints nothing."""
    spans = {(one.way, one.seed): one.makespan for one in points}
    seeds = sorted({one.seed for one in points})
    return statistics.median(spans[after, seed] / spans[before, seed] for seed in seeds) <= LONGER
