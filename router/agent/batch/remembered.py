"""What the answers of a batch system have taught, for all threads that ask: each operation is done as a whole.

Shell (a lock). Threads of a user's Pods ask about single jobs while the observer's asks about all of them. Nothing else
of what asks and tells a batch system changes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable, Mapping

from router.hpc import JobReport


class Remembered:
    """What one batch system has told one user, and for how long it counts. Times are of the monotonic clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, float] = {}
        self._away: dict[str, float] = {}
        self._servers: frozenset[str] = frozenset()
        self._no_history_until = -math.inf
        self._listed: tuple[float, Mapping[str, JobReport]] = (-math.inf, {})
        self._users = ""
        self._told = False

    # --- jobs and servers that are left alone for a while ---

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

    # --- what answers have named ---

    def learn(self, servers: Collection[str]) -> None:
        """Servers that stand in ids of the batch system's own answers: these may be asked."""
        with self._lock:
            self._servers |= frozenset(servers)

    @property
    def servers(self) -> frozenset[str]:
        """All of them."""
        with self._lock:
            return self._servers

    def answered(self) -> None:
        """The batch system has told of single jobs."""
        with self._lock:
            self._told = True

    @property
    def has_answered(self) -> bool:
        """Whether it ever has."""
        with self._lock:
            return self._told

    # --- records of jobs that are over ---

    def has_history(self, now: float) -> bool:
        """Whether it may keep such records, as far as is known."""
        with self._lock:
            return now >= self._no_history_until

    def lacks_history(self, until: float) -> bool:
        """It has said that it keeps none, which is believed until then; whether it has never said so before."""
        with self._lock:
            first = self._no_history_until == -math.inf
            self._no_history_until = until
            return first

    # --- the last list ---

    def lists(self, users: str) -> None:
        """A list of these users' jobs is asked for; names joined by commas."""
        with self._lock:
            self._users = users

    @property
    def users(self) -> str:
        """Whose jobs were asked for last; empty where no list was ever asked for."""
        with self._lock:
            return self._users

    def listed(self, reports: Mapping[str, JobReport], now: float) -> None:
        """A list has told all there is of these jobs."""
        with self._lock:
            self._listed = (now, reports)

    def last_list(self, since: float) -> Mapping[str, JobReport] | None:
        """What the last list has told all of; None where that was before this moment."""
        with self._lock:
            when, reports = self._listed
            return reports if when >= since else None
