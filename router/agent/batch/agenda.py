"""Decides when the batch system is asked next, and what: all jobs once a cycle, single jobs in between.

Shell (a lock, a clock). An observer asks the agenda what is due. Other threads enter jobs to ask about, and changes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.agent.batch.jobs import MOST_IDS
from router.reconcile.pace import interval

URGENT_SECONDS: Final = 1.0
"""Shortest time between two questions about single jobs."""
NEVER: Final = math.inf
"""Seconds between two cycles of an observer that runs only the cycles that are asked for."""
_SHORTEST: Final = 0.01
_LONGEST: Final = 3600.0
"""Most seconds of one wait: a lock takes no infinite number."""


@dataclass(slots=True)
class _Due:
    """The open questions, with monotonic times."""

    last: float = -math.inf
    urgent: float = 0.0
    changed: float | None = None
    at_once: bool = True
    ids: set[str] = field(default_factory=set)


class Agenda:
    """The questions that are due. The first cycle is due at once.

    :param slow: seconds between two cycles at present, ``NEVER`` for none
    :param quick: seconds between two cycles for a minute after a change by the agent
    :param again: monotonic time before which the batch system should not be asked
    :param wake: called when a question may be due sooner than ``pause`` has said
    """

    def __init__(
        self, *, slow: Callable[[], float], quick: float, again: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._slow = slow
        self._quick = quick
        self._again = again
        self._wake = wake
        self._lock = threading.Lock()
        self._due = _Due()

    def ask(self, job_ids: Iterable[str]) -> None:
        """Ask for details of these jobs within a second."""
        with self._lock:
            self._due.ids.update(job_ids)
        self._wake()

    def hurry(self) -> None:
        """Ask more often for a minute: the agent has changed something, so more is likely to happen soon."""
        with self._lock:
            self._due.changed = time.monotonic()
        self._wake()

    def check(self) -> None:
        """Make a cycle due now."""
        with self._lock:
            self._due.at_once = True
        self._wake()

    def take(self) -> Sequence[str] | None:
        """The ids to ask about now; empty if a whole cycle is due. None: wait for ``pause``."""
        with self._lock:
            now, due = time.monotonic(), self._due
            if now < self._again():
                return None
            if now >= self._cycle():
                due.last, due.at_once = now, False
                return ()
            if not due.ids or now < due.urgent:
                return None
            ids = sorted(due.ids)[:MOST_IDS]
            due.ids.difference_update(ids)
            due.urgent = now + URGENT_SECONDS
            return ids

    def pause(self) -> float:
        """Seconds until the next question is due, as far as is known now."""
        with self._lock:
            soonest = min(self._cycle(), self._due.urgent) if self._due.ids else self._cycle()
            pause = max(self._again(), soonest) - time.monotonic()
            return min(max(pause, _SHORTEST), _LONGEST) if pause > 0 else 0.0

    def _cycle(self) -> float:
        """When the next cycle is due."""
        due, slow = self._due, self._slow()
        if due.at_once:
            return -math.inf
        if slow == NEVER:
            return NEVER
        return due.last + interval(due.changed, time.monotonic(), quick=self._quick, slow=slow)
