"""When a queue that is full is tried again.

Shell (a lock, a clock). A limit on queued jobs holds for a queue, so one Pod's refusal holds back all others there: a
thousand Pods do not each ask a server that has just said no.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from router.background.backoff import BackOff


@dataclass(slots=True)
class _Full:
    until: float
    words: str
    refusals: int


class FullQueues:
    """The queues that said that they are full. Times are seconds since 1970, as plans have them.

    :param back_off: the pauses before a queue that goes on refusing is tried again
    """

    def __init__(self, back_off: BackOff) -> None:
        self._back_off = back_off
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
            full.until = now + self._back_off.first
            return None

    def refused(self, queue: str, words: str) -> float:
        """A queue is full; when to try again."""
        with self._lock:
            known = self._full.get(queue)
            refusals = known.refusals + 1 if known else 1
            until = time.time() + self._back_off.after(refusals)
            self._full[queue] = _Full(until, words, refusals)
            return until

    def took(self, queue: str) -> None:
        """A queue took a job."""
        with self._lock:
            self._full.pop(queue, None)
