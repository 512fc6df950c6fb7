"""The figures, the table and the picture of ``bench.study``.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from bench import efficiencypage
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
    :param doubled: jobs whose container came to its end more than once
    """

    queued: float
    queued_p95: float
    again: int
    doubled: int


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
    return Point(
        way=way,
        seed=seed,
        **served(runs, cores),
        queued=of_all(queued, 0.5),
        queued_p95=of_all(queued, 0.95),
        again=wrong[0],
        doubled=wrong[1],
    )


def table(points: Sequence[Point]) -> str:
    """A table of Markdown: for each way the medians over seeds, with the lowest and the highest."""
    rows = {
        way: [spread([getattr(one, figure) for one in points if one.way == way]) for figure in COLUMNS]
        for way in dict.fromkeys(one.way for one in points)
    }
    return efficiencypage.table("way", COLUMNS, rows)


PANELS = (("makespan", "Makespan"), ("wait", "Mean wait"))
_NAMES, _WIDTH, _ROW, _GAP = 230.0, 330.0, 34.0, 60.0
"""Of the picture: a way's name, a panel, a row and the space between panels, in pixels."""


def picture(points: Sequence[Point]) -> str:
    """A picture (SVG): a row for each way, in it a dot for each seed and a bar at the median, in seconds."""
    ways = list(dict.fromkeys(one.way for one in points))
    width, height = _NAMES + 2 * _WIDTH + 2 * _GAP, _ROW * len(ways)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -40 {width} {height + 80}" role="img">',
        '<g font-family="system-ui, sans-serif" font-size="13"><title>Makespan and mean wait, by way and seed</title>',
        f'<rect y="-40" width="{width}" height="{height + 80}" fill="#fff"/>',
    ]
    for row, way in enumerate(ways):
        lines.append(f'<text x="{_NAMES - 12}" y="{_ROW * (row + 0.5) + 4}" text-anchor="end">{escape(way)}</text>')
    for number, (figure, title) in enumerate(PANELS):
        rows = [[getattr(one, figure) for one in points if one.way == way] for way in ways]
        lines += _panel(_NAMES + number * (_WIDTH + _GAP), title, rows)
    return "\n".join([*lines, "</g></svg>"]) + "\n"


def _panel(left: float, title: str, rows: Sequence[Sequence[float]]) -> Iterator[str]:
    top = max(value for values in rows for value in values) or 1.0
    step = next(one * ten for ten in (1, 10, 100, 1000) for one in (1, 2, 5) if top <= 5 * one * ten)
    yield f'<text x="{left}" y="-16" font-size="15">{title}</text>'
    for number in range(6):
        x, low = round(left + number * _WIDTH / 5, 1), _ROW * len(rows)
        yield f'<path d="M{x} 0V{low}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{low + 20}" text-anchor="middle">{number * step} s</text>'
    for row, values in enumerate(rows):
        at, y = [round(left + value / (5 * step) * _WIDTH, 1) for value in values], _ROW * (row + 0.5)
        yield f'<path d="M{statistics.median(at)} {y - 12}v24" stroke="#1f5a96" stroke-width="3"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="4" fill="#1f5a96" fill-opacity="0.45"/>' for x in at)


def kept(points: Sequence[Point], before: str, after: str) -> bool:
    """Whether the bound on the makespan holds for the median of the seeds."""
    spans = {(one.way, one.seed): one.makespan for one in points}
    seeds = sorted({one.seed for one in points})
    return statistics.median(spans[after, seed] / spans[before, seed] for seed in seeds) <= LONGER
