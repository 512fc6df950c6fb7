"""Computes pauses that grow with repeated failures.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MOST_DOUBLINGS: Final = 64
"""Further doublings would have no effect, and in the end overflow a float."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses in seconds: ``first`` after the first failure, doubled by each further one, at most ``longest``."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The pause after this many failures in a row; 0 without a failure.

        Callers that share the failed service with many others multiply it by a random factor.
        """
        if not failures:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest)
