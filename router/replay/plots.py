"""Works out the two plots of a report: where core-hours go, and sizes against walltimes with the rules' borders.

Pure. The template draws what is worked out here, in units of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from router.notation import durations
from router.policy.model import Policy
from router.replay.borders import Border, borders
from router.replay.changes import Kind
from router.replay.rows import jobs as count_of
from router.replay.tally import Cell, Hours, Report
from router.values import unchanging

BAR_WIDTH: Final = 420.0
BAR_STEP: Final = 46
WIDTH, HEIGHT = 640.0, 360.0
"""Of the area of the plot of sizes."""
_LARGEST: Final = 14.0
_SMALLEST: Final = 2.5
_NOTHING: Final = Hours()
_SECONDS: Final = 3600


@unchanging
class Bar:
    """A destination: widths of its two bars, their texts, and its top edge."""

    label: str
    before: float
    after: float
    before_text: str
    after_text: str
    top: int


@unchanging
class Dot:
    """Jobs of about one size."""

    x: float
    y: float
    radius: float
    changes: bool
    title: str


@unchanging
class Line:
    """A rule's border: upright for cores, level for walltimes."""

    at: float
    upright: bool
    after: bool
    title: str


@unchanging
class Tick:
    """A mark of an axis."""

    at: float
    label: str


@unchanging
class Sizes:
    """The plot of sizes. Its axes are logarithms to the base of 2."""

    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def bars(report: Report) -> tuple[Bar, ...]:
    """A pair of bars for each destination, the largest first."""
    old, new = report.old, report.new
    names = sorted(
        {*old.hours, *new.hours}, key=lambda one: (-max(_cores(old.hours, one), _cores(new.hours, one)), one)
    )
    most = max([_cores(side.hours, one) for side in (old, new) for one in names], default=0.0) or 1.0
    return tuple(
        Bar(
            name,
            _cores(old.hours, name) / most * BAR_WIDTH,
            _cores(new.hours, name) / most * BAR_WIDTH,
            _told(old.hours.get(name, _NOTHING), old.destinations.get(name, 0)),
            _told(new.hours.get(name, _NOTHING), new.destinations.get(name, 0)),
            position * BAR_STEP,
        )
        for position, name in enumerate(names)
    )


def _cores(hours: Mapping[str, Hours], name: str) -> float:
    return hours.get(name, _NOTHING).cores


def _told(hours: Hours, jobs: int) -> str:
    return f"{hours.cores:,.0f} core-hours, {count_of(jobs)}"


def sizes(report: Report, old: Policy, new: Policy) -> Sizes | None:
    """The plot of sizes; None without a Job that names cores and walltime."""
    if not report.sizes:
        return None
    found = [(border, after) for policy, after in ((old, False), (new, True)) for border in borders(policy)]
    x = _Axis([cell.cores for cell in report.sizes], _logs(found, 1, timed=False), WIDTH)
    y = _Axis([cell.walltime for cell in report.sizes], _logs(found, _SECONDS, timed=True), HEIGHT)
    return Sizes(
        _dots(report.sizes, x, y),
        tuple(_line(border, after, x, y) for border, after in found),
        tuple(Tick(x.at(power), _cores_text(power)) for power in x.powers),
        tuple(Tick(HEIGHT - y.at(power), durations.show(max(1, round(2.0**power * _SECONDS)))) for power in y.powers),
    )


def _logs(found: Sequence[tuple[Border, bool]], unit: int, *, timed: bool) -> list[float]:
    return [math.log2(border.value / unit) for border, _ in found if border.timed is timed]


class _Axis:
    """Maps logarithms to places: from the least to one above the largest."""

    def __init__(self, cells: Iterable[int], lines: Iterable[float], length: float) -> None:
        every = [*cells, *lines]
        self.first, self.last = math.floor(min(every)), math.floor(max(every)) + 1
        self._length = length

    def at(self, power: float) -> float:
        return round((power - self.first) / (self.last - self.first) * self._length, 1)

    @property
    def powers(self) -> range:
        return range(self.first, self.last + 1, max(1, (self.last - self.first) // 8))


def _dots(counted: Mapping[Cell, int], x: _Axis, y: _Axis) -> tuple[Dot, ...]:
    """Two dots at most for each cell: those that stay left, those that change right of its middle."""
    merged: dict[tuple[int, int, bool], int] = {}
    for cell, count in counted.items():
        key = (cell.cores, cell.walltime, cell.kind is not Kind.NONE)
        merged[key] = merged.get(key, 0) + count
    most = max(merged.values())
    return tuple(
        Dot(
            x.at(cores + (0.65 if changes else 0.35)),
            HEIGHT - y.at(walltime + 0.5),
            round(_SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(count / most), 1),
            changes,
            f"{count_of(count)}, {'changed' if changes else 'unchanged'}: {_cores_text(cores)} to {_cores_text(cores + 1)} cores",
        )
        for (cores, walltime, changes), count in sorted(merged.items())
    )


def _cores_text(power: int) -> str:
    return f"{2.0**power:,.0f}" if power >= 0 else f"1/{2**-power}"


def _line(border: Border, after: bool, x: _Axis, y: _Axis) -> Line:  # noqa: FBT001
    upright = not border.timed
    at = x.at(math.log2(border.value)) if upright else HEIGHT - y.at(math.log2(border.value / _SECONDS))
    return Line(at, upright, after, f"{'after' if after else 'before'}: rule {border.rule}, {border.words}")
