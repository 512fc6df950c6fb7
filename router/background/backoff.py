"""Pauses that grow while something goes on failing.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MOST_DOUBLINGS: Final = 64
"""More change nothing, and would be no float in the end."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses in seconds: ``first`` after the first failure, twice the one before after each further, at most ``longest``."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The pause after so many failures in a row; none where there was no failure.

        Whoever shares what has failed with many others spreads it by a factor of chance.
        """
        if not failures:
            return 0.0
        return min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest)
