"""Keeps what the answers of a batch system have shown, for all threads that ask it. Each operation is atomic.

Shell (a lock). Threads of a user's Pods ask about single jobs while the observer's thread asks about all of them. All
other objects that ask a batch system are immutable.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable


class Remembered:
    """The answers of one batch system to one user, with the times until which they count (monotonic clock)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, float] = {}
        self._away: dict[str, float] = {}
        self._servers: frozenset[str] = frozenset()
        self._no_history_until = -math.inf
        self._users = ""
        self._told = False

    # --- jobs and servers that are left alone for a while ---

    def held(self, now: float) -> frozenset[str]:
        """Jobs that are left out of questions now."""
        with self._lock:
            self._held = {job_id: until for job_id, until in self._held.items() if until > now}
            return frozenset(self._held)

    def hold(self, job_ids: Iterable[str], until: float) -> None:
        """Leave these jobs out of questions until a time."""
        with self._lock:
            self._held.update(dict.fromkeys(job_ids, until))

    def is_away(self, server: str, now: float) -> bool:
        """Whether a server that could not be asked is still left alone."""
        with self._lock:
            return now < self._away.get(server, -math.inf)

    def away(self, server: str, until: float) -> None:
        """Leave that server alone until a time."""
        with self._lock:
            self._away[server] = until

    # --- what answers have named ---

    def learn(self, servers: Collection[str]) -> None:
        """Add servers from ids of the batch system's own answers: these servers may be asked."""
        with self._lock:
            self._servers |= frozenset(servers)

    @property
    def servers(self) -> frozenset[str]:
        """All servers that may be asked."""
        with self._lock:
            return self._servers

    def answered(self) -> None:
        """Note that the batch system has answered a question about single jobs."""
        with self._lock:
            self._told = True

    @property
    def has_answered(self) -> bool:
        """Whether the batch system has ever answered a question about single jobs."""
        with self._lock:
            return self._told

    # --- records of jobs that are over ---

    def has_history(self, now: float) -> bool:
        """Whether the batch system may keep records of ended jobs, as far as is known."""
        with self._lock:
            return now >= self._no_history_until

    def lacks_history(self, until: float) -> bool:
        """Note that the batch system keeps no records, which counts until a time; returns whether this is the first."""
        with self._lock:
            first = self._no_history_until == -math.inf
            self._no_history_until = until
            return first

    # --- the last list ---

    def lists(self, users: str) -> None:
        """Note that a list of these users' jobs is asked for; names joined by commas."""
        with self._lock:
            self._users = users

    @property
    def users(self) -> str:
        """The users of the last list, names joined by commas; empty before the first list."""
        with self._lock:
            return self._users
