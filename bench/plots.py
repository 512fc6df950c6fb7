"""Draws the pictures of benchmarks, as SVG with matplotlib. Nothing but benchmarks needs it.

The same figures give the same picture, byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
from matplotlib.typing import RcKeyType

from router.simulate.figures import Spread

STYLES = (
    ("#1f5a96", "solid"),
    ("#777777", (0, (2, 4))),
    ("#b4531f", (0, (9, 4))),
    ("#8a6d00", (0, (9, 3, 2, 3))),
    ("#333333", (0, (1, 1.5))),
    ("#2c7a4b", "solid"),
    ("#8e3a80", (0, (4, 3))),
)
"""A colour and a dash for each way: the dash tells them apart without colours."""
_BLUE = STYLES[0][0]
_HOURS = (1, 2, 4, 6, 12, 24, 48, 96, 192)
_OPTIONS: dict[RcKeyType, Any] = {
    "svg.hashsalt": "batchgate",  # without it names of parts differ each time
    "svg.fonttype": "none",  # text stays text
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
}


def curves(title: str, loads: Sequence[float], found: Mapping[str, Sequence[Spread]], scale: str) -> str:
    """A line of medians over loads for each way, within the lowest and the highest value.

    :param scale: of the values: ``time`` in seconds, ``log``, or ``part`` of 1
    """
    with _picture(9.5, 4.0) as (figure, drawn):
        axes = figure.subplots()
        for (way, spreads), (colour, dash) in zip(found.items(), STYLES, strict=False):
            axes.plot(loads, [one.median for one in spreads], color=colour, linestyle=dash, linewidth=2, label=way)
            low, high = [one.low for one in spreads], [one.high for one in spreads]
            axes.fill_between(loads, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_title(title, loc="left")
        axes.set_xlabel("load of the HPC nodes, if all went there")
        axes.set_xticks(loads)
        axes.set_xlim(loads[0], loads[-1])
        _scaled(axes, scale, max(one.high for spreads in found.values() for one in spreads))
        figure.legend(loc="outside right upper", frameon=False)
    return drawn.getvalue()


def _scaled(axes: Axes, scale: str, most: float) -> None:
    if scale == "log":
        axes.set_yscale("log")
        axes.set_ylim(bottom=1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        return
    axes.set_ylim(0, 1 if scale == "part" else None)
    if scale == "part":
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    else:
        step = next(one for one in _HOURS if most <= 5 * one * 3600)
        axes.yaxis.set_major_locator(MultipleLocator(step * 3600))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 3600:.0f}h"))


Panel = tuple[str, Callable[[float], str], Mapping[str, Sequence[float]]]
"""Its title, how a value is shown, and each way's values."""


def dots(panels: Sequence[Panel]) -> str:
    """Panels, two side by side: a row for each way, in it a dot for each value and a bar at the median."""
    rows = -(-len(panels) // 2)
    ways = list(panels[0][2])
    with _picture(10.0, rows * (1.0 + 0.35 * len(ways))) as (figure, drawn):
        found = figure.subplots(rows, 2, sharey=True, squeeze=False)
        for axes, (title, show, values) in zip(found.flat, panels, strict=False):
            for row, way in enumerate(ways):
                axes.plot(values[way], [row] * len(values[way]), "o", color=_BLUE, alpha=0.45, markeredgewidth=0)
                axes.plot(median(values[way]), row, "|", color=_BLUE, markersize=18, markeredgewidth=3)
            axes.set_title(title, loc="left")
            axes.set_xlim(0, 1.05 * (max(value for own in values.values() for value in own) or 1.0))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _, show=show: show(value)))
            axes.set_yticks(range(len(ways)), ways)
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
        found[0][0].set_ylim(len(ways) - 0.5, -0.5)
    return drawn.getvalue()


@contextmanager
def _picture(width: float, height: float) -> Iterator[tuple[Figure, io.StringIO]]:
    """A figure of that many inches, and the text that it is after the block."""
    text = io.StringIO()
    with rc_context(_OPTIONS):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, text
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
