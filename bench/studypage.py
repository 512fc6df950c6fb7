"""The figures, the table and the picture of ``bench.study``.

Pure.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench import efficiencypage, plots
from bench.served import Served, of_all, served
from router.simulate.figures import spread
from router.simulate.play import Run
from router.simulate.reports import percent, ratio

LONGER = 1.03
"""How much longer the makespan through Batchgate may be than by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Served):
    """One way with one seed.

    :param queued: from when a job was given to when its batch job's id was known
    :param again: jobs whose container was started again after it was cut off
    :param doubled: jobs whose container ran once more after it had come to its end, or at the same time
    :param failed: Jobs that Kubernetes shows as failed
    """

    queued: float
    queued_p95: float
    again: int
    doubled: int
    failed: int = 0


COLUMNS: efficiencypage.Columns = {
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
    "doubled": ("run twice", "{:.0f}".format),
    "failed": ("shown as failed", "{:.0f}".format),
}
"""Of the table, by figure: title, and how a value is shown."""


def point(
    way: str,
    seed: int,
    runs: Sequence[Run],
    cores: int,
    queued: Sequence[float] = (),
    wrong: tuple[int, int, int] = (0, 0, 0),
) -> Point:
    """The figures of what has run.

    :param cores: of the HPC nodes
    :param queued: seconds
    :param wrong: how many were started again, how many ran twice, and how many are shown as failed
    """
    return Point(
        way=way,
        seed=seed,
        **served(runs, cores),
        queued=of_all(queued, 0.5),
        queued_p95=of_all(queued, 0.95),
        again=wrong[0],
        doubled=wrong[1],
        failed=wrong[2],
    )


def written(points: Sequence[Point]) -> str:
    """The figures as JSON, ``null`` for one that is unknown: JSON has no NaN."""
    rows = [
        {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in asdict(one).items()}
        for one in points
    ]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def read(text: str) -> list[Point]:
    """The figures that ``written`` has written."""
    rows: list[dict[str, Any]] = json.loads(text)
    return [Point(**{name: _known(value) for name, value in row.items()}) for row in rows]


def _known(value: Any) -> Any:
    return math.nan if value is None else value


def table(points: Sequence[Point]) -> str:
    """A table of Markdown: for each way the medians over seeds, with the lowest and the highest."""
    rows = {
        way: [spread([getattr(one, figure) for one in points if one.way == way]) for figure in COLUMNS]
        for way in dict.fromkeys(one.way for one in points)
    }
    return efficiencypage.table("way", COLUMNS, rows)


PANELS: Sequence[tuple[str, str, Callable[[float], str]]] = (
    ("makespan", "Makespan", "{:g} s".format),
    ("wait", "Mean wait", "{:g} s".format),
    ("wait_p95", "95th percentile of wait", "{:g} s".format),
    ("slowdown", "Mean bounded slowdown", "{:g}".format),
    ("slowdown_p95", "95th percentile of bounded slowdown", "{:g}".format),
    ("utilisation", "Utilisation of the HPC nodes", "{:.0%}".format),
    ("queued", "Given to queued, median", "{:g} s".format),
    ("queued_p95", "Given to queued, 95th percentile", "{:g} s".format),
)
"""Of the picture: figure, title, and how a value is shown."""


def picture(points: Sequence[Point]) -> str:
    """A picture (SVG): in each panel a row for each way, in it a dot for each seed and a bar at the median."""
    ways = dict.fromkeys(one.way for one in points)

    def values(figure: str) -> dict[str, list[float]]:
        return {way: [getattr(one, figure) for one in points if one.way == way] for way in ways}

    return plots.dots([(title, show, values(figure)) for figure, title, show in PANELS])


def kept(points: Sequence[Point], before: str, after: str) -> bool:
    """Whether the bound on the makespan holds for the median of the seeds."""
    spans = {(one.way, one.seed): one.makespan for one in points}
    seeds = sorted({one.seed for one in points})
    return statistics.median(spans[after, seed] / spans[before, seed] for seed in seeds) <= LONGER
