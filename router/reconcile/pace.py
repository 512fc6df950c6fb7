"""Decides how often to ask the batch system, and when not to believe its answers.

Pure.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

QUICK_FOR: Final = 60.0
"""Seconds after a change by the agent during which it asks the batch system at the quick interval."""

DOUBTED_FOR: Final = 3
"""For how long an answer that many jobs are unknown is doubted, in multiples of ``Terms.lost_proof`` (so half an hour).

After that the batch system is believed to have lost the jobs, because it was set up anew, or was killed before it had
stored them. Each job still counts as lost only after the pauses and looks that a single lost job needs.
"""
_ANOTHER: Final = 900.0
"""After this many seconds without a doubted answer, the next one begins a new doubt. Longer than an outage's pauses."""

_SHARE: Final = 0.1
_FEW: Final = 2


def interval(changed: float | None, now: float, *, quick: float, slow: float) -> float:
    """Seconds between two cycles: ``quick`` for a minute after any change by the agent, else ``slow``."""
    return min(quick, slow) if changed is not None and now - changed < QUICK_FOR else slow


def vanished(known: AbstractSet[str], gone: AbstractSet[str]) -> str:
    """Why an answer in which some jobs are unknown is not believed; empty if it is believed.

    :param known: jobs that were not over at the last answer
    :param gone: the jobs among them that are unknown to the batch system now. Jobs whose script has written its end
        note, and jobs that the agent deleted, are left out: a batch system without history forgets them at once
    """
    lost = len(known & gone)
    limit = max(_FEW, int(len(known) * _SHARE))
    if lost <= limit:
        return ""
    return f"{lost} of {len(known)} batch jobs vanished at once, so the batch system's answer is not believed for now"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Since when answers are doubted, and when the last doubted answer came; in seconds since 1970."""

    since: float
    last: float

    def over(self, lost_proof: float) -> bool:
        """Whether the doubt has lasted so long that the batch system is believed now.

        :param lost_proof: seconds between two answers that prove a single job to be lost
        """
        return self.last - self.since >= DOUBTED_FOR * lost_proof


def doubted(before: Doubt | None, now: float) -> Doubt:
    """The doubt after one more answer that is not believed."""
    if before is None or now - before.last > _ANOTHER:
        return Doubt(now, now)
    return Doubt(before.since, now)
