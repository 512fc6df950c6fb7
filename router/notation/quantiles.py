"""Quantiles of a few measured values.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank quantile of values in ascending order, which is one of them; None without values.

    :param share: at most 1
    """
    return ordered[max(1, math.ceil(len(ordered) * share)) - 1] if ordered else None
