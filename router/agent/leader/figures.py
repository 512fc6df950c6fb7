"""The figures of a leading agent for its metrics: Pods by queue and state, stuck Pods by reason, the queues.

Nothing is asked for them: they are counted from what the agent knows when Prometheus asks. Labels of Pods are their
users' text, so a queue counts by its name only where the policy declares it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from router.agent.records import Record, SiteRecords
from router.hpc import QueueReport
from router.operating import stuck
from router.reconcile.following import followed
from router.startup.settings import QUEUES_MAX_AGE

OTHER: Final = ""
"""The queue of a Pod that names none of the site's."""


class Figures:
    """The figures of one term as the leader.

    :param queues: the names of the declared queues
    :param heard: when a watch of Pods last gave a sign of life, in monotonic seconds
    """

    def __init__(self, records: SiteRecords, queues: Iterable[str], heard: Callable[[], float]) -> None:
        self._records = records
        self._declared = frozenset(queues)
        self._heard = heard
        self._queues: Mapping[str, QueueReport] = {}
        self._told = 0.0

    def tell(self, found: Mapping[str, QueueReport]) -> None:
        """Note what the batch system says of its queues now; empty while it is not reached."""
        self._queues, self._told = found, time.monotonic()

    def jobs(self) -> Mapping[tuple[str, str], int]:
        """The number of Pods by queue and state of their job."""
        return Counter((_declared(one.facts.pod.queue, self._declared), _state(one)) for one in self._records.all())

    def stuck(self) -> Mapping[tuple[str, str], int]:
        """The number of stuck Pods by queue and reason, as ``batchgate status`` counts them.

        A refused Pod counts until it is deleted, as the agent knows no Jobs.
        """
        pods = [one.facts.pod for one in self._records.all() if one.facts.pod.name]
        return Counter((_declared(one.queue, self._declared), one.reason) for one in stuck.pods(pods, {}, time.time()))

    def queues(self) -> Mapping[str, QueueReport]:
        """What the batch system last said of the declared queues; empty once rules would call it too old."""
        if time.monotonic() - self._told > QUEUES_MAX_AGE:
            return {}
        return {name: one for name, one in self._queues.items() if name in self._declared}

    def ages(self) -> Mapping[str, float]:
        """Seconds since each watch gave a sign of life."""
        return {"pods": max(0.0, time.monotonic() - self._heard())}


def _declared(queue: str, names: Container[str]) -> str:
    return queue if queue in names else OTHER


def _state(record: Record) -> str:
    facts = record.facts
    if facts.pod.status.terminal:
        return facts.pod.status.phase
    job = followed(facts)
    if job is None:
        return "Waiting"
    return str(job.report.state) if job.report is not None else "Submitted"
