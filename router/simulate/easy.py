"""A batch system's queue with EASY backfilling.

Pure, with a state. The first job that waits has a reservation: the earliest time at which it can start if every job runs
as long as it asked for. A later job starts before it only if that leaves the reservation as it is. The source: D. A.
Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence

from router.simulate.nodes import Needs, Nodes, Placement, chosen
from router.values import unchanging


@unchanging
class Batch:
    """A batch job.

    :param number: unique; of jobs that are submitted at the same time the lower one is first
    :param queue: ``site/queue``
    :param limit: the walltime that it asks for, seconds
    """

    number: int
    queue: str
    needs: Needs
    limit: float


@unchanging
class Reservation:
    """When the first job that waits can start, and the slots of each node that others may still use from then on.

    :param full: what does not fit now, whatever its walltime
    :param closed: what does not fit if it runs beyond ``start``
    """

    start: float
    spare: list[int]
    full: set[Needs]
    closed: set[Needs]


class Easy:
    """The nodes of one or more queues, with the jobs that wait and run there, in the order of their submission."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.reservation: Reservation | None = None
        self.waiting: list[Batch] = []
        self.running: dict[int, tuple[Batch, Placement, float]] = {}
        self.queued: Counter[str] = Counter()
        self.active: Counter[str] = Counter()
        self._ends: list[tuple[float, int]] = []
        self._new: list[Batch] = []
        # By queue: the first of a plain dict takes the longer the more were taken out before it.
        self._since: defaultdict[str, OrderedDict[int, float]] = defaultdict(OrderedDict)

    def submit(self, job: Batch, now: float) -> None:
        """Add a job to the end of the queue. It must be one that the nodes hold."""
        self.waiting.append(job)
        self._new.append(job)
        self._since[job.queue][job.number] = now
        self.queued[job.queue] += 1

    def end(self, number: int) -> None:
        """Free the nodes of a job."""
        job, placement, limit = self.running.pop(number)
        self.nodes.give_back(placement)
        del self._ends[bisect_left(self._ends, (limit, number))]
        self.active[job.queue] -= 1
        self.reservation = None

    def first_waiting(self, queue: str) -> float | None:
        """Since when the longest-waiting job of a queue waits; None for an empty queue."""
        return next(iter(self._since[queue].values()), None)

    def start(self, now: float) -> Iterator[Batch]:
        """Start all jobs that may start now."""
        # What the reservation has held back once stays back until a job ends, so only new ones are tried.
        tried: Sequence[Batch] = self._new
        if self.reservation is None:
            while self.waiting and self.nodes.fits(self.waiting[0].needs):
                first = self.waiting.pop(0)
                yield self._started(first, now, self.nodes.place(first.needs))
            if self.waiting:
                self.reservation = self._reserved(self.waiting[0].needs)
            tried = self.waiting[1:]
        self._new = []
        if self.reservation is None:
            return
        begun = {job.number: job for job in tried if self._backfilled(job, now, self.reservation)}
        if begun:
            self.waiting = [job for job in self.waiting if job.number not in begun]
            yield from begun.values()

    def _started(self, job: Batch, now: float, placement: Placement) -> Batch:
        self.running[job.number] = (job, placement, now + job.limit)
        insort(self._ends, (now + job.limit, job.number))
        self.queued[job.queue] -= 1
        self.active[job.queue] += 1
        del self._since[job.queue][job.number]
        return job

    def _reserved(self, needs: Needs) -> Reservation:
        free = list(self.nodes.free)
        position = 0
        while True:
            # Jobs that are to end at the same time end together.
            until = self._ends[position][0]
            while position < len(self._ends) and self._ends[position][0] == until:
                for node, slots in self.running[self._ends[position][1]][1]:
                    free[node] += slots
                position += 1
            if (taken := chosen(free, needs)) is not None:
                for node, slots in taken:
                    free[node] -= slots
                return Reservation(until, free, set(), set())

    def _backfilled(self, job: Batch, now: float, reservation: Reservation) -> bool:
        """Start a job if it fits and leaves the reservation as it is."""
        needs, nodes = job.needs, self.nodes
        # Until a job ends there is less room with each that starts: what was too large once is so for all of its shape.
        if needs.slots > nodes.total or needs in reservation.full:
            return False
        brief = now + job.limit <= reservation.start
        if not brief and needs in reservation.closed:
            return False
        if not nodes.fits(needs):
            reservation.full.add(needs)
            return False
        if brief:
            self._started(job, now, nodes.place(needs))
            return True
        taken = chosen(list(map(min, nodes.free, reservation.spare)), needs)
        if taken is None:
            reservation.closed.add(needs)
            return False
        for node, slots in taken:
            reservation.spare[node] -= slots
        self._started(job, now, nodes.take(taken))
        return True
