"""A queue of keys that are due now or later. At most one thread works on a key at a time.

Shell (a lock, a clock). As in Kubernetes' controllers, a key that is woken while a thread works on it comes again after
that. So all news is handled, by one thread for each Pod.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import OrderedDict
from collections.abc import Callable


class Workqueue:
    """Keys in the order in which they were woken. All methods may be called by any thread. Times are monotonic."""

    def __init__(self) -> None:
        self.drained: Callable[[], object] = _nothing
        """Called when a key is handed out and no thread waits for the next one; must leave the queue alone."""
        self._condition = threading.Condition()
        self._waiting = 0
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._working: set[str] = set()
        self._again: set[str] = set()
        self._later: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._closed = False

    def wake(self, key: str) -> None:
        """Make this key due now."""
        with self._condition:
            self._wake(key)
            self._condition.notify()

    def at(self, key: str, moment: float) -> None:
        """Wake the key at this time at the latest; an earlier time given before still counts."""
        with self._condition:
            known = self._due.get(key)
            if known is not None and known <= moment:
                return
            self._due[key] = moment
            heapq.heappush(self._later, (moment, key))
            if self._later[0][1] == key:  # a waiting thread must now wake earlier
                self._condition.notify()

    def take(self) -> str | None:
        """Wait for the next key; None once the queue is closed. The key is the caller's until ``done``."""
        with self._condition:
            while not self._closed:
                pause = self._ripen()
                if self._ready:
                    key, _ = self._ready.popitem(last=False)
                    self._working.add(key)
                    if not self._waiting:
                        self.drained()
                    return key
                self._waiting += 1
                self._condition.wait(pause)
                self._waiting -= 1
            return None

    def done(self, key: str) -> None:
        """The caller's work on the key is over."""
        with self._condition:
            self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._wake(key)
            self._condition.notify_all()

    def forget(self, key: str) -> None:
        """Drop a key for good."""
        with self._condition:
            self._ready.pop(key, None)
            self._again.discard(key)
            self._due.pop(key, None)

    def close(self) -> None:
        """Hand out nothing more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def idle(self, seconds: float) -> bool:
        """Wait, at most ``seconds``, until no thread works on a key; returns whether that is so."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._working, seconds)

    @property
    def empty(self) -> bool:
        """Whether all keys are done: none is due now, due later, or in work."""
        with self._condition:
            return not (self._ready or self._working or self._due)

    def __len__(self) -> int:
        """How many keys are due now."""
        with self._condition:
            return len(self._ready)

    def _wake(self, key: str) -> None:
        self._due.pop(key, None)
        if key in self._working:
            self._again.add(key)
        else:
            self._ready[key] = None

    def _ripen(self) -> float | None:
        """Wake the keys that are due; returns the seconds until the next one, None without a next one."""
        now = time.monotonic()
        while self._later:
            moment, key = self._later[0]
            if self._due.get(key) == moment and moment > now:
                return moment - now
            heapq.heappop(self._later)
            if self._due.get(key) == moment:
                self._wake(key)
                self._condition.notify()
        return None


def _nothing() -> None:
    """Do nothing: the default of ``drained``, without further threads."""
