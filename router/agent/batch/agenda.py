"""When the batch system is asked next, and what: everything once a cycle, single jobs in between.

Shell (a lock, a clock). Whoever looks waits here; whoever wants to know, or has changed something, says so.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from router.agent.batch.commands import MOST_IDS
from router.reconcile.pace import interval

URGENT_SECONDS: Final = 1.0
"""Between two questions for single jobs."""
NEVER: Final = math.inf
"""Seconds between two cycles of somebody who has none but those that are asked for."""
_LONGEST: Final = 3600.0
"""Seconds that are waited at once: a lock takes no infinite number."""


@dataclass(slots=True)
class _Due:
    """When what is due; monotonic times."""

    last: float = -math.inf
    urgent: float = 0.0
    changed: float | None = None
    at_once: bool = True
    ids: set[str] = field(default_factory=set)
    stopping: bool = False


class Agenda:
    """What is to be asked. The first cycle is due at once.

    :param slow: seconds between two cycles as it is now, ``NEVER`` for none
    :param quick: the same for a minute after any change of ours
    :param again: monotonic time before which the batch system should not be asked
    """

    def __init__(self, *, slow: Callable[[], float], quick: float, again: Callable[[], float]) -> None:
        self._slow = slow
        self._quick = quick
        self._again = again
        self._condition = threading.Condition()
        self._due = _Due()

    def ask(self, job_ids: Iterable[str]) -> None:
        """Ask for details of these jobs within a second."""
        with self._condition:
            self._due.ids.update(job_ids)
            self._condition.notify_all()

    def hurry(self) -> None:
        """Something was changed, and more is likely to happen soon."""
        with self._condition:
            self._due.changed = time.monotonic()
            self._condition.notify_all()

    def check(self) -> None:
        """Let a cycle be due now."""
        with self._condition:
            self._due.at_once = True
            self._condition.notify_all()

    def stop(self) -> None:
        """Let ``next`` say that it is over."""
        with self._condition:
            self._due.stopping = True
            self._condition.notify_all()

    def next(self) -> Sequence[str] | None:
        """Wait for what is due: ids to ask about, none of them for a whole cycle; None for the end."""
        with self._condition:
            while not self._due.stopping:
                now, due = time.monotonic(), self._due
                pause = self._again() - now
                cycle = self._cycle(now)
                if pause <= 0 and now >= cycle:
                    due.last, due.at_once = now, False
                    return ()
                if pause <= 0 and due.ids and now >= due.urgent:
                    ids = sorted(due.ids)[:MOST_IDS]
                    due.ids.difference_update(ids)
                    due.urgent = now + URGENT_SECONDS
                    return ids
                soonest = min(cycle, due.urgent) if due.ids else cycle
                self._condition.wait(min(max(pause, soonest - now, 0.01), _LONGEST))
            return None

    def _cycle(self, now: float) -> float:
        """When the next cycle is due."""
        due, slow = self._due, self._slow()
        if due.at_once:
            return -math.inf
        return NEVER if slow == NEVER else due.last + interval(due.changed, now, quick=self._quick, slow=slow)
