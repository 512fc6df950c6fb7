"""What the tables of ``bench.efficiency`` show, as Markdown, and what its plots do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
