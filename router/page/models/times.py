"""Times and durations as people say them.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of values in ascending order; None without values.

    :param share: 0.5 is the median
    """
    if not ordered:
        return None
    rank = -(-len(ordered) * share // 1)  # rounded up
    return ordered[min(len(ordered), max(1, int(rank))) - 1]
