"""How often the batch system is asked, and when its answers are not believed.

Pure.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

QUICK_FOR: Final = 60.0
"""Seconds after a change of ours in which the batch system is asked at the quick interval."""

DOUBTED_FOR: Final = 3
"""For how long a server that says the same again and again is not believed, in times of what proves a single job to be
lost (half an hour, as ten minutes are usual). Then it has lost the jobs, as one does that was set up anew, or was killed
before it had written them down; each of them is held to be lost only after the pauses and looks that a single one needs.
"""
_ANOTHER: Final = 900.0
"""Seconds without a doubt after which the next is about something else; longer than any pause of an outage."""

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


@dataclass(frozen=True, slots=True)
class Doubt:
    """Since when answers are not believed, and when the last such one came; seconds since 1970."""

    since: float
    last: float

    def over(self, lost_proof: float) -> bool:
        """Whether it has lasted so long that the server is believed.

        :param lost_proof: seconds between two answers that prove a single job to be lost
        """
        return self.last - self.since >= DOUBTED_FOR * lost_proof


def doubted(before: Doubt | None, now: float) -> Doubt:
    """The doubt with one more answer that is not believed."""
    if before is None or now - before.last > _ANOTHER:
        return Doubt(now, now)
    return Doubt(before.since, now)
