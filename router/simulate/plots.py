"""Works out the plots over time: bands from the lowest to the highest of all seeds, with the median as a line.

Pure. The template draws what is worked out here, in units of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from router.notation import durations
from router.replay.plots import Tick
from router.simulate.reports import Side, percent
from router.simulate.series import Band, Series
from router.values import unchanging

WIDTH, HEIGHT = 720.0, 200.0
_TICKS: Final = 4
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@unchanging
class Curve:
    """A line with the area of its band, as paths; ``style`` is its class."""

    label: str
    style: str
    line: str
    area: str


@unchanging
class Plot:
    """Curves over one time."""

    title: str
    curves: tuple[Curve, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def plots(sides: Sequence[Side]) -> tuple[Plot, ...]:
    """Cores in use of each policy; the cloud's share, the Pods that wait and how long, of all policies in one plot each."""
    many = len(sides) > 1
    cores = [
        _plot(
            f"Cores in use{f': {side.name}' if many else ''}",
            [(where, band, side.series) for where, band in side.series.cores.items()],
        )
        for side in sides
    ]
    share = [(side.name if many else "cloud", side.series.share, side.series) for side in sides]
    waiting = [(side.name if many else "all", side.series.waiting, side.series) for side in sides]
    waits = [(side.name if many else "all", side.series.wait, side.series) for side in sides]
    return (
        *cores,
        _plot("The cloud's share of cores in use", share, lambda _: 1.0, percent),
        _plot("Pods that wait", waiting),
        _plot("How long Pods wait on average", waits, _top_of_time, lambda value: durations.show(round(value))),
    )


def _top(most: float) -> float:
    """A round number at or above the largest value, of which a quarter is round as well."""
    if most <= 0:
        return float(_TICKS)
    quarter = most / _TICKS
    power = 10.0 ** math.floor(math.log10(quarter))
    return _TICKS * power * next(step for step in _STEPS if step * power >= quarter * (1 - 1e-9))


def _top_of_time(most: float) -> float:
    """The same of seconds, in whole parts of days, hours or minutes."""
    unit = next((one for one in (86400, 3600, 60) if most > _TICKS * one), 1)
    return unit * _top(most / unit)


def _plot(
    title: str,
    bands: Sequence[tuple[str, Band, Series]],
    top_of: Callable[[float], float] = _top,
    show: Callable[[float], str] = "{:,g}".format,
) -> Plot:
    """
    :param bands: with their labels, and what each is of
    :param top_of: the height of the plot, by the largest value
    """
    begin = min(series.begin for _, _, series in bands)
    end = max(series.end for _, _, series in bands)
    most = max([one.high for _, band, _ in bands for one in band if not math.isnan(one.high)], default=0.0)
    top = top_of(most)
    curves = [
        _curve(label, "old" if number == 0 else "new", band, (series.end - series.begin) / (end - begin), top)
        for number, (label, band, series) in enumerate(bands)
    ]
    up = [Tick(HEIGHT - HEIGHT * number / _TICKS, show(top * number / _TICKS)) for number in range(_TICKS + 1)]
    return Plot(title, tuple(curves), tuple(_times(begin, end)), tuple(up))


def _curve(label: str, style: str, band: Band, part: float, top: float) -> Curve:
    """:param part: of the width that the band takes"""
    step = WIDTH * part / len(band)
    points = [
        (
            round((number + 0.5) * step, 1),
            [round(HEIGHT - HEIGHT * value / top, 1) for value in (one.median, one.low, one.high)],
        )
        for number, one in enumerate(band)
        if not math.isnan(one.median)
    ]
    if not points:
        return Curve(label, style, "", "")
    line = "M" + " L".join(f"{x} {median}" for x, (median, _, _) in points)
    there = [f"{x} {high}" for x, (_, _, high) in points]
    back = [f"{x} {low}" for x, (_, low, _) in reversed(points)]
    return Curve(label, style, line, f"M{' L'.join([*there, *back])}Z")


def _times(begin: float, end: float) -> Iterator[Tick]:
    """Marks of time since the first arrival."""
    for number in range(_TICKS + 1):
        yield Tick(WIDTH * number / _TICKS, _after(round((end - begin) * number / _TICKS)))


def _after(seconds: int) -> str:
    unit = 3600 if seconds > 5 * 86400 else 60
    return durations.show(unit * round(seconds / unit))
