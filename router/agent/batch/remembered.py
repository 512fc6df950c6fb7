"""What the answers of a batch system have taught, for all threads that ask: each operation is done as a whole.

Threads of a user's Pods ask about single jobs while the observer's asks about all of them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable


class Remembered:
    """Jobs and servers that are left alone for a while, and servers that may be asked. Times are of the monotonic clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, float] = {}
        self._away: dict[str, float] = {}
        self._servers: frozenset[str] = frozenset()

    def held(self, now: float) -> frozenset[str]:
        """Jobs that no question names now."""
        with self._lock:
            self._held = {job_id: until for job_id, until in self._held.items() if until > now}
            return frozenset(self._held)

    def hold(self, job_ids: Iterable[str], until: float) -> None:
        """Name these in no question until then."""
        with self._lock:
            self._held.update(dict.fromkeys(job_ids, until))

    def is_away(self, server: str, now: float) -> bool:
        """Whether another server, which could not be asked, is not asked again yet."""
        with self._lock:
            return now < self._away.get(server, -math.inf)

    def away(self, server: str, until: float) -> None:
        """Ask that server no more until then."""
        with self._lock:
            self._away[server] = until

    def learn(self, servers: Collection[str]) -> None:
        """Servers that stand in ids of the batch system's own answers: these may be asked."""
        with self._lock:
            self._servers |= frozenset(servers)

    @property
    def servers(self) -> frozenset[str]:
        """All of them."""
        return self._servers
