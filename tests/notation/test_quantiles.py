"""Nearest-rank quantiles."""

from __future__ import annotations

import pytest

from router.notation.quantiles import quantile


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (0, 0.5, None),
        (1, 0.0, 1),
        (1, 0.5, 1),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (20, 0.95, 19),
        (21, 0.95, 20),
        (100, 0.95, 95),
    ],
)
def test_quantiles(count: int, share: float, expected: float | None) -> None:
    assert quantile(list(range(1, count + 1)), share) == expected
