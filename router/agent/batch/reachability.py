"""Keeps whether the batch system answers, and when it is asked again while it is silent.

Shell (a lock, a clock). A silent server does not mean that jobs have ended. So all Pods stay as they are, and only the
Nodes report it. The pauses between questions grow until it answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from router.background.backoff import BackOff
from router.errors import BatchError


class Reachability:
    """The reachability of one site's batch system.

    :param changed: called with the reason when the batch system becomes unreachable or the reason changes, and with an
        empty text when it answers again
    :param back_off: the pauses before it is asked again
    """

    def __init__(self, changed: Callable[[str], None], back_off: BackOff) -> None:
        self._changed = changed
        self._back_off = back_off
        self._lock = threading.Lock()
        self._reason = ""
        self._failures = 0
        self._again = 0.0

    @property
    def ok(self) -> bool:
        """Whether the batch system answered when it was last asked."""
        return not self._reason

    @property
    def reason(self) -> str:
        """Why the batch system counts as unreachable; empty while it answers."""
        return self._reason

    @property
    def again(self) -> float:
        """Monotonic time before which the batch system should not be asked again; 0 while it answers."""
        return self._again if self._reason else 0.0

    def answered(self) -> None:
        """Note that the batch system has answered a question about all of our jobs."""
        with self._lock:
            self._failures, was, self._reason = 0, self._reason, ""
        if was:
            self._changed("")

    def failed(self, error: BatchError | str) -> None:
        """Note that the batch system gave no answer, or an invalid one."""
        words = error if isinstance(error, str) else error.words.strip() or str(error)
        with self._lock:
            was, self._reason = self._reason, words or "no answer"
            self._failures += 1
            self._again = time.monotonic() + self._back_off.after(self._failures)
            reason = self._reason
        if was != reason:
            self._changed(reason)
