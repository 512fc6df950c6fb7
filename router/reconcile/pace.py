"""How often the batch system is asked, and when its answers are not believed.

Pure.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

QUICK_FOR: Final = 60.0
"""Seconds after a change of ours in which the batch system is asked at the quick interval."""

_SHARE: Final = 0.1
_FEW: Final = 2


def interval(changed: float | None, now: float, *, quick: float, slow: float) -> float:
    """Seconds between two cycles: ``quick`` for a minute after any change of ours, else ``slow``."""
    return min(quick, slow) if changed is not None and now - changed < QUICK_FOR else slow


def vanished(known: AbstractSet[str], gone: AbstractSet[str]) -> str:
    """In words why an answer that does not know some jobs is not believed; empty where it is.

    :param known: jobs that were not over at the last answer
    :param gone: those of them that the server says it does not know, without those whose script has said its last word
        or that were deleted for us: a server without history forgets these at once
    """
    lost = len(known & gone)
    limit = max(_FEW, int(len(known) * _SHARE))
    if lost <= limit:
        return ""
    return f"{lost} of {len(known)} batch jobs vanished at once, so the answer is not believed"
