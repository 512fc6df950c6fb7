"""Quantiles of a few measured values.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of values in ascending order; None without values.

    :param share: 0.5 is the median
    """
    if not ordered:
        return None
    rank = -(-len(ordered) * share // 1)  # rounded up
    return ordered[min(len(ordered), max(1, int(rank))) - 1]
