"""Looking at the batch system: few questions for all jobs together, answers to those whom they concern.

Shell: one thread. A cycle is one cheap list of our jobs and one question for details of those that changed, left the
list or are new; in between, details of single jobs are asked for when a note of a script or a plan wants them, all of a
second together.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from router.agent import questions
from router.agent.batch import MOST_IDS, Answer, Batch
from router.agent.metrics import Stopwatch
from router.agent.reach import Reach
from router.agent.records import Record, Records
from router.errors import BatchError, Unavailable
from router.hpc import JobReport, JobState
from router.layout import NO_INDEX
from router.podview import departed
from router.reconcile import outcomes
from router.reconcile.model import Facts
from router.reconcile.pace import interval, vanished

log: Final = logging.getLogger("batchgate.agent")

URGENT_SECONDS: Final = 1.0
"""Between two questions for single jobs."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How the batch system is looked at.

    :param root: this cluster's directory on the site
    :param cluster: its eight digits in jobs' names
    :param usual: seconds between two cycles
    :param quick: the same for a minute after any change of ours
    :param idle: the same while there is no Pod
    """

    root: str
    cluster: str
    usual: float
    quick: float
    idle: float


@dataclass(slots=True)
class _Due:
    """When what is due; monotonic times."""

    last: float = -math.inf
    urgent: float = 0.0
    changed: float | None = None
    ids: set[str] = field(default_factory=set)
    stopping: bool = False


class Observer:
    """Asks the batch system of one site; ``start`` it when the Pods are known, ``stop`` it in the end.

    :param wake: called with the uid of each Pod about which there is news
    :param notice: called before jobs are held to be unknown: reads what their scripts have told so far
    """

    def __init__(
        self,
        batch: Batch,
        asking: Asking,
        records: Records,
        reach: Reach,
        *,
        wake: Callable[[str], None],
        notice: Callable[[], None],
    ) -> None:
        self.looked = threading.Event()
        """Set once all jobs were seen that were there at the start."""
        self.began = False
        """Whether it was started."""
        self._batch = batch
        self._asking = asking
        self._records = records
        self._reach = reach
        self._wake = wake
        self._notice = notice
        self._metrics = batch.metrics
        self._condition = threading.Condition()
        self._due = _Due()
        self._others: set[str] = set()
        self._asked: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self) -> None:
        """Begin to look, at once."""
        self._thread.start()
        self.began = True

    def stop(self) -> None:
        """Look no more. A command that runs is not waited for."""
        with self._condition:
            self._due.stopping = True
            self._condition.notify_all()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def ask(self, job_ids: Iterable[str]) -> None:
        """Ask for details of these jobs within a second."""
        with self._condition:
            self._due.ids.update(job_ids)
            self._condition.notify_all()

    def hurry(self) -> None:
        """Something was changed, and more is likely to happen soon."""
        with self._condition:
            self._due.changed = time.monotonic()
            self._condition.notify_all()

    def check(self) -> None:
        """Look at everything as soon as possible: a command has failed that should not have."""
        with self._condition:
            self._due.last = -math.inf
            self._condition.notify_all()

    def search(self, uid: str) -> list[JobReport]:
        """Reports of all living jobs that carry a Pod's uid, asked for now. BatchError."""
        listed = self._batch.states()
        found = self._details([questions.number_of(job_id) for job_id in listed])
        return [one for one in found.reports.values() if self._uid_of(one) == uid]

    def _run(self) -> None:
        while (urgent := self._next()) is not None:
            try:
                if urgent:
                    self._answer(self._details(urgent))
                else:
                    self._cycle()
                    self._reach.answered()
            except BatchError as error:
                self._reach.failed(error)
                with self._condition:
                    self._due.ids.update(urgent)

    def _next(self) -> Sequence[str] | None:
        """Wait for what is due: ids to ask about, none of them for a whole cycle; None for the end."""
        with self._condition:
            while not self._due.stopping:
                now, due = time.monotonic(), self._due
                pause = self._reach.again - now
                slow = self._asking.usual if self._records.any() else self._asking.idle
                cycle = due.last + interval(due.changed, now, quick=self._asking.quick, slow=slow)
                if pause <= 0 and now >= cycle:
                    due.last = now
                    return ()
                if pause <= 0 and due.ids and now >= due.urgent:
                    ids = sorted(due.ids)[:MOST_IDS]
                    due.ids.difference_update(ids)
                    due.urgent = now + URGENT_SECONDS
                    return ids
                soonest = min(cycle, due.urgent) if due.ids else cycle
                self._condition.wait(max(pause, soonest - now, 0.01))
            return None

    def _cycle(self) -> None:
        watch = Stopwatch()
        records = self._records.all()
        began = time.time()
        listed = self._batch.states()
        jobs = [job for record in records if not record.over for job in record.facts.jobs]
        asked = questions.questions(listed, jobs, self._others, self._asked, began)
        ids = asked.all if not self.looked.is_set() else asked.all[:MOST_IDS]
        self._answer(self._details(ids), shown=listed)
        self._prune(listed)
        if not self.looked.is_set():
            self._looked(records)
        self._metrics.cycle_seconds.observe(watch.seconds)

    def _details(self, ids: Sequence[str]) -> Answer:
        """What became of any number of jobs. Several blocks of them only at the start and for a search."""
        reports: dict[str, JobReport] = {}
        unknown: set[str] = set()
        for first in range(0, len(ids), MOST_IDS):
            found = self._batch.ask(ids[first : first + MOST_IDS])
            reports |= found.reports
            unknown |= found.unknown
        return Answer(reports, frozenset(unknown))

    def _answer(self, answer: Answer, shown: Mapping[str, JobState] | None = None) -> None:
        """Hand each report, or that there is none, to the Pod that it concerns."""
        now = time.time()
        news: dict[str, Record] = {}
        for job_id, report in answer.reports.items():
            self._asked[job_id] = now
            if (record := self._record_of(report, now)) is not None:
                # What a job asked for is in the Pod; of 10,000 jobs it would be kept for nothing.
                record.change(partial(outcomes.reported, report=replace(report, resources={}), now=now))
                news[record.uid] = record
            else:
                self._others.update(one for one in shown or () if questions.is_same(one, job_id))
        for uid in news:
            self._wake(uid)
        self._unknown(answer.unknown, now)

    def _record_of(self, report: JobReport, now: float) -> Record | None:
        """The Pod that a job is of; for a living one of our cluster whose Pod is not there, one that is missing."""
        uid = self._uid_of(report)
        record = self._records.get(uid)
        if record is not None or not uid or report.state is JobState.FINISHED:
            return record
        job, index, _ = questions.place_of(report, self._asking.root) or ("", NO_INDEX, uid)
        record = self._records.found(departed(uid=uid, job_uid=job, index=index, job_id=report.job_id), now)
        fields = {"job": report.job_id, "name": report.name, "user": self._records.user}
        if record is None:
            log.warning("a job that says to be another user's Pod's", extra={"fields": fields})
        elif not record.name:
            record.name = report.name.removesuffix(f".{self._asking.cluster}.{uid}")
            log.warning("a job without a Pod", extra={"fields": fields})
        return record

    def _unknown(self, ids: Collection[str], now: float) -> None:
        """Tell the Pods whose jobs the batch system does not know.

        :raises Unavailable: so many vanished at once that it is not believed
        """
        if not ids:
            return
        self._notice()
        known, gone, concerned = set(), set(), []
        for record in self._records.all():
            for job in record.facts.jobs:
                if job.alive:
                    known.add(job.job_id)
                if job.job_id in ids:
                    concerned.append((record, job.job_id))
                    if record.facts.life.end is None and not job.deletes:
                        gone.add(job.job_id)
        if words := vanished(known, gone):
            raise Unavailable(("details",), 0, words)
        for record, job_id in concerned:
            record.change(partial(outcomes.unknown, job_id=job_id, now=now))
            self._wake(record.uid)

    def _looked(self, records: Iterable[Record]) -> None:
        """All jobs were seen that were there when the records were taken: so each Pod was searched for."""
        now = time.time()
        for record in records:
            record.change(_searched(now))
            self._wake(record.uid)
        self.looked.set()

    def _prune(self, listed: Mapping[str, JobState]) -> None:
        self._others.intersection_update(listed)
        if len(self._asked) > 2 * len(listed) + MOST_IDS:
            self._asked = {job_id: when for job_id, when in self._asked.items() if job_id in listed}

    def _uid_of(self, report: JobReport) -> str:
        return questions.uid_of(report, self._asking.root, self._asking.cluster)


def _searched(now: float) -> Callable[[Facts], Facts]:
    return lambda facts: outcomes.looked(facts, (), now)
