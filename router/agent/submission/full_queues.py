"""Decides when a full queue is tried again.

Shell (a lock, a clock). A limit on queued jobs applies to a whole queue, so one Pod's refusal holds back the other Pods
there. This spares the server a thousand submissions that it would refuse.
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
    """The queues that refused a job as full. Times are seconds since 1970, as in plans.

    :param back_off: the pauses before a queue that goes on refusing is tried again
    """

    def __init__(self, back_off: BackOff) -> None:
        self._back_off = back_off
        self._lock = threading.Lock()
        self._full: dict[str, _Full] = {}

    def held(self, queue: str) -> tuple[float, str] | None:
        """Until when submissions to a queue wait, and the queue's words; None if the caller may try now.

        For a full queue, the caller that gets None tries for all. Other callers wait until its outcome is known, or for
        the first pause.
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
        """Note that a queue is full; returns when to try again."""
        with self._lock:
            known = self._full.get(queue)
            refusals = known.refusals + 1 if known else 1
            until = time.time() + self._back_off.after(refusals)
            self._full[queue] = _Full(until, words, refusals)
            return until

    def took(self, queue: str) -> None:
        """Note that a queue took a job."""
        with self._lock:
            self._full.pop(queue, None)
