"""Remembers who waits in a site's queues, from the state of the queues that is asked for anyway.

Shell (memory, the clock).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from router.agent.records import Record
from router.hpc import QueueReport
from router.reconcile.model import Line
from router.reconcile.queued import lines, with_waits

OLD_SECONDS: Final = 300.0
"""After this time without an answer nothing is said of a place in the line."""


class Lines:
    """The line of each queue at the last answer. All methods may be called by any thread.

    :param observed: whether the site's observer asks
    """

    def __init__(self, *, observed: bool) -> None:
        self._observed = observed
        self._known: Mapping[str, Line] = {}
        self._at = 0.0

    def learn(self, queues: Mapping[str, QueueReport], records: Iterable[Record]) -> dict[str, QueueReport]:
        """Take an answer; returns it with the waits that this cluster's own jobs tell."""
        facts, now = [record.facts for record in records], time.time()
        reports = [job.report for one in facts for job in one.jobs if job.report is not None]
        self._known, self._at = lines(queues, reports, facts, now, observed=self._observed), time.monotonic()
        return with_waits(queues, reports, now)

    def of(self, queue: str) -> Line | None:
        """The line of a queue; None without a recent answer."""
        return self._known.get(queue) if time.monotonic() - self._at < OLD_SECONDS else None
