"""Times and durations as people say them.

Pure.
"""

from __future__ import annotations

from typing import Final

from router.reconcile import starts
from router.reconcile.starts import Start

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """A duration in its two largest units: ``8 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``.

    From a minute on seconds are left out, from a day on minutes.
    """
    value = max(0, int(seconds))
    if value < 60:
        return f"{value} s"
    first = next(index for index, (size, _) in enumerate(_UNITS) if value >= size)
    parts = []
    for size, unit in _UNITS[first : first + (1 if first == 2 else 2)]:
        count, value = divmod(value, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def may_start(start: Start, now: float) -> str:
    """When a job may start, and what that rests on: ``may start before 15:30 UTC, by the waits of 23 Pods …``."""
    return f"may start {starts.people(start, now)}" + (f", by {start.basis}" if start.basis else "")
