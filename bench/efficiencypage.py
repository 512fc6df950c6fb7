"""Tables and plots of ``bench.efficiency``: Markdown and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from router.simulate.figures import Spread
from router.simulate.reports import percent, ratio, time, told

PLOTS: Mapping[str, tuple[str, str, str]] = {
    "wait": ("wait", "Mean wait of all Jobs", "time"),
    "slowdown": ("slowdown_p95", "95th percentile of bounded slowdown of all Jobs", "log"),
    "utilisation": ("utilisation", "Utilisation of the HPC nodes", "part"),
    "share": ("share", "The cloud's share of core-hours", "part"),
}
"""By the file's name: figure, title, kind of the scale."""

Columns = Mapping[str, tuple[str, Callable[[float], str]]]
COLUMNS: Columns = {
    "wait": ("mean wait", time),
    "wait_p95": ("wait p95", time),
    "slowdown": ("mean slowdown", ratio),
    "slowdown_p95": ("slowdown p95", ratio),
    "utilisation": ("HPC utilisation", percent),
    "share": ("cloud's core-hours", percent),
    "makespan": ("makespan", lambda seconds: f"{seconds / 3600:,.0f}h"),
}
"""Of the tables, by figure: title, and how a value is shown."""

WIDTH, HEIGHT = 620.0, 320.0
STYLES = (
    ("#1f5a96", ""),
    ("#777777", "2 4"),
    ("#b4531f", "9 4"),
    ("#8a6d00", "9 3 2 3"),
    ("#2c7a4b", ""),
    ("#8e3a80", "4 3"),
)
"""A colour and a dash for each way: the dash tells them apart without colours."""


def table(of: str, columns: Columns, rows: Mapping[str, Sequence[Spread]]) -> str:
    """A table of Markdown, with the spreads of all columns for each way.

    :param of: the title of the ways
    """
    head = [of, *[title for title, _ in columns.values()]]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for way, spreads in rows.items():
        cells = [told(spread, show) for spread, (_, show) in zip(spreads, columns.values(), strict=True)]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(title: str, loads: Sequence[float], curves: Mapping[str, Sequence[Spread]], scale: str) -> str:
    """A picture: a line of medians for each way, from the lowest to the highest value around it."""
    top = max(spread.high for spreads in curves.values() for spread in spreads)
    marks = _marks(top, scale)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-90 -40 {WIDTH + 330} {HEIGHT + 90}" role="img">',
        f'<g font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>',
        f'<rect x="-90" y="-40" width="{WIDTH + 330}" height="{HEIGHT + 90}" fill="#fff"/>',
        f'<text x="0" y="-18" font-size="15">{escape(title)}</text>',
    ]
    for value, label in marks:
        y = _y(value, marks[-1][0], scale)
        lines.append(
            f'<path d="M0 {y}H{WIDTH}" stroke="#ddd"/><text x="-8" y="{y + 4}" text-anchor="end">{label}</text>'
        )
    for load in loads:
        x = _x(load, loads)
        lines.append(f'<text x="{x}" y="{HEIGHT + 20}" text-anchor="middle">{load:g}</text>')
    lines.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT + 42}" text-anchor="middle">load of the HPC nodes, if all went there</text>'
    )
    for number, (way, spreads) in enumerate(curves.items()):
        lines += _curve(
            number,
            way,
            [(_x(load, loads), spread) for load, spread in zip(loads, spreads, strict=True)],
            marks[-1][0],
            scale,
        )
    return "\n".join([*lines, "</g></svg>"]) + "\n"


def _curve(number: int, way: str, points: Sequence[tuple[float, Spread]], top: float, scale: str) -> list[str]:
    colour, dash = STYLES[number]
    there = " L".join(f"{x} {_y(spread.high, top, scale)}" for x, spread in points)
    back = " L".join(f"{x} {_y(spread.low, top, scale)}" for x, spread in reversed(points))
    line = " L".join(f"{x} {_y(spread.median, top, scale)}" for x, spread in points)
    y = 14 + number * 24
    stroke = f'fill="none" stroke="{colour}" stroke-width="2.5" stroke-dasharray="{dash}"'
    return [
        f'<path d="M{there} L{back}Z" fill="{colour}" opacity="0.15"/>',
        f'<path d="M{line}" {stroke}/>',
        f'<path d="M{WIDTH + 20} {y - 4}h40" {stroke}/><text x="{WIDTH + 68}" y="{y}">{escape(way)}</text>',
    ]


def _x(load: float, loads: Sequence[float]) -> float:
    return round((load - loads[0]) / (loads[-1] - loads[0]) * WIDTH, 1)


def _y(value: float, top: float, scale: str) -> float:
    if scale == "log":
        return round(HEIGHT - HEIGHT * math.log10(max(value, 1.0)) / math.log10(top), 1)
    return round(HEIGHT - HEIGHT * value / top, 1)


def _marks(top: float, scale: str) -> list[tuple[float, str]]:
    match scale:
        case "part":
            return [(number / 5, f"{number / 5:.0%}") for number in range(6)]
        case "log":
            return [(10.0**power, f"{10**power:,}") for power in range(math.ceil(math.log10(max(top, 10.0))) + 1)]
        case _:
            step = next(one for one in (1, 2, 4, 6, 12, 24, 48, 96, 192) if top <= 5 * one * 3600)
            return [(number * step * 3600.0, f"{number * step}h") for number in range(6)]
