"""When a queue that is full is tried again.

Shell (a lock, a clock). A limit on queued jobs holds for a queue, so one Pod's refusal holds back all others there: a
thousand Pods do not each ask a server that has just said no.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final

FIRST: Final = 5.0
LONGEST: Final = 60.0


@dataclass(slots=True)
class _Full:
    until: float
    words: str
    refusals: int


class FullQueues:
    """The queues that said that they are full. Times are seconds since 1970, as plans have them."""

    def __init__(self, *, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first = first
        self._longest = longest
        self._lock = threading.Lock()
        self._full: dict[str, _Full] = {}

    def held(self, queue: str) -> tuple[float, str] | None:
        """Until when nothing is submitted to a queue, and its words; None where it may be tried.

        Whoever gets None tries for all: others are held until that has come out, or for the first pause.
        """
        with self._lock:
            full = self._full.get(queue)
            if full is None:
                return None
            now = time.time()
            if now < full.until:
                return full.until, full.words
            full.until = now + self._first
            return None

    def refused(self, queue: str, words: str) -> float:
        """A queue is full; when to try again."""
        with self._lock:
            known = self._full.get(queue)
            refusals = known.refusals if known else 0
            until = time.time() + min(self._first * (1 << min(refusals, 16)), self._longest)
            self._full[queue] = _Full(until, words, refusals + 1)
            return until

    def took(self, queue: str) -> None:
        """A queue took a job."""
        with self._lock:
            self._full.pop(queue, None)
