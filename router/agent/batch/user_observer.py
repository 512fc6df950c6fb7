"""Looks at one user's jobs in the batch system with few questions, and hands each answer to its Pod.

Shell: one thread. A cycle is one cheap list of the user's jobs and one question for details of jobs that changed, left
the list or are new. In between, notes of scripts and plans ask for details of single jobs, one question a second. If
the site has an observer, it takes over once the user's jobs were seen at the start. This module then asks, as the
owner, only about jobs that the observer misses.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from router.agent.batch import questions
from router.agent.batch.agenda import NEVER, Agenda
from router.agent.batch.jobs import MOST_IDS, BatchJobs, JobList, JobReports
from router.agent.batch.reachability import Reachability
from router.agent.batch.site_observer import SiteObserver
from router.agent.metrics import Stopwatch
from router.agent.records import Record, Records
from router.background.loop import Loop
from router.errors import BatchError, Unavailable
from router.hpc import JobReport, JobState
from router.pod.layout import NO_INDEX
from router.pod.view import departed
from router.reconcile import outcomes
from router.reconcile.model import Facts, Job
from router.reconcile.pace import Doubt, doubted, vanished

log: Final = logging.getLogger("batchgate.agent")


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """The settings of a user's observer.

    :param root: this cluster's directory on the site
    :param cluster: its eight digits in jobs' names
    :param usual: seconds between two cycles
    :param quick: seconds between two cycles for a minute after a change by the agent
    :param idle: seconds between two cycles while there is no Pod
    :param lost_proof: seconds between two answers that prove a job to be lost
    """

    root: str
    cluster: str
    usual: float
    quick: float
    idle: float
    lost_proof: float


class UserObserver:
    """Asks the batch system of one site as one user; ``start`` it when the Pods are known, ``stop`` it in the end.

    :param wake: called with the uid of each Pod about which there is news
    :param notice: called before jobs are taken as unknown; reads the notes that their scripts have written so far
    :param site_observer: looks at the jobs after the first look; None: this observer goes on itself
    """

    def __init__(  # noqa: PLR0913 - parts of a seat, and callbacks
        self,
        batch: BatchJobs,
        settings: ObserverSettings,
        records: Records,
        reach: Reachability,
        *,
        wake: Callable[[str], None],
        notice: Callable[[], None],
        site_observer: SiteObserver | None = None,
    ) -> None:
        self.looked = threading.Event()
        """Set once all jobs that existed at the start were seen."""
        self.began = False
        """Whether the observer was started."""
        self._batch = batch
        self._settings = settings
        self._records = records
        self._reach = reach
        self._wake = wake
        self._notice = notice
        self._metrics = batch.commands.metrics
        self._site_observer = site_observer
        self._loop = Loop("observer", self._turn)
        self._agenda = Agenda(slow=self._slow, quick=settings.quick, again=lambda: reach.again, wake=self._loop.wake)
        self._failing = False
        self._doubt: Doubt | None = None
        self._told_hidden = False
        self._others: set[str] = set()
        self._asked: dict[str, float] = {}

    def start(self) -> None:
        """Start the thread, which looks at once."""
        self._loop.start()
        self.began = True

    def stop(self) -> None:
        """Stop the thread, without waiting for a running command."""
        self._loop.stop()
        if self._site_observer is not None:
            self._site_observer.leave(self)

    def await_end(self) -> None:
        """Wait, after ``stop``, until the thread has ended; returns at once if it never started."""
        self._loop.await_end()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    @property
    def user(self) -> str:
        """The HPC user whose jobs these are."""
        return self._records.user

    def ask(self, job_ids: Iterable[str]) -> None:
        """Ask for details of these jobs within a second."""
        self._asker.ask(job_ids)

    def hurry(self) -> None:
        """Ask more often for a minute: the agent has changed something, so more is likely to happen soon."""
        self._asker.hurry()

    def check(self) -> None:
        """Look at everything as soon as possible, as a command failed unexpectedly."""
        self._asker.check()

    def search(self, uid: str) -> list[JobReport]:
        """Reports of all living jobs that carry a Pod's uid, asked for now. Raises BatchError."""
        listed = self._batch.listed()
        found = self._details([questions.number_of(job_id) for job_id in listed.states], listed)
        return [one for one in found.reports.values() if self._uid_of(one) == uid]

    def jobs(self) -> list[Job]:
        """See ``Member``."""
        return [job for record in self._records.all() if not record.over for job in record.facts.jobs]

    @property
    def wants_usage(self) -> bool:
        """See ``Member``."""
        return self._records.wants_usage

    def told(self, reports: Mapping[str, JobReport]) -> Sequence[str]:
        """Hand each report to the Pod that it concerns; returns the ids of jobs that belong to no Pod."""
        now = time.time()
        news: dict[str, Record] = {}
        others = []
        for job_id, report in reports.items():
            if (record := self._record_of(report, now)) is not None:
                # The Pod already holds the requested resources; copies for 10,000 jobs would only take memory.
                record.change(partial(outcomes.reported, report=replace(report, resources={}), now=now))
                news[record.uid] = record
            else:
                others.append(job_id)
        for record, report in self._mistaken(reports):
            record.change(partial(outcomes.reported, report=report, now=now))
            news[record.uid] = record
        for uid in news:
            self._wake(uid)
        return others

    def _mistaken(self, reports: Mapping[str, JobReport]) -> Iterator[tuple[Record, JobReport]]:
        """The Pods that follow a job's id although the job belongs to another Pod or user, each with that report.

        A killed Slurm controller forgets the jobs of its last seconds, and later gives their ids to new jobs.
        """
        for record in self._records.all():
            for job in record.facts.jobs:
                report = reports.get(job.job_id)
                if report is None:
                    continue
                uid = self._uid_of(report)
                if uid != record.uid and (uid or report.directory):
                    yield record, report

    def ask_itself(self, job_ids: Iterable[str]) -> None:
        """See ``Member``."""
        self._agenda.ask(job_ids)

    def look_itself(self) -> None:
        """See ``Member``."""
        self._agenda.check()

    def answered(self) -> None:
        """See ``Member``. While the user's own questions fail, the user stays unreachable."""
        if not self._failing:
            self._reach.answered()

    def failed(self, error: BatchError) -> None:
        """See ``Member``."""
        self._reach.failed(error)

    @property
    def _asker(self) -> Agenda | SiteObserver:
        """The agenda or observer that asks about this user's jobs now."""
        return self._agenda if self._site_observer is None or not self.looked.is_set() else self._site_observer

    def _slow(self) -> float:
        if self._asker is self._site_observer:
            return NEVER
        return self._settings.usual if self._records.any() else self._settings.idle

    def _turn(self) -> float:
        if (urgent := self._agenda.take()) is not None:
            self._look(urgent)
        return self._agenda.pause()

    def _look(self, urgent: Sequence[str]) -> None:
        try:
            if urgent:
                self._own(urgent)
            else:
                self._cycle()
                self._answered()
            self._failing = False
        except BatchError as error:
            self._failing = True
            self._reach.failed(error)
            self._agenda.ask(urgent)

    def _answered(self) -> None:
        """Note that the user has got an answer. While the observer is away, the user counts as unreachable."""
        if self._site_observer is not None and self._site_observer.away:
            self._reach.failed(self._site_observer.away)
        else:
            self._reach.answered()

    def _own(self, ids: Sequence[str]) -> None:
        """Ask about single jobs as the user."""
        answer = self._details(ids)
        self._answer(answer)
        alive = [job_id for job_id, one in answer.reports.items() if one.state is not JobState.FINISHED]
        if self._asker is self._site_observer and alive and not self._told_hidden:
            self._told_hidden = True
            fields = {"user": self.user, "job": alive[0]}
            log.warning("the observer does not see a job that its owner sees", extra={"fields": fields})

    def _cycle(self) -> None:
        watch = Stopwatch()
        records = self._records.all()
        began = time.time()
        listed = self._batch.listed()
        jobs = self.jobs()
        asked = questions.questions(listed.states, jobs, self._others, self._asked, began, listed.reports)
        if self.wants_usage:
            asked = questions.with_figures(asked, jobs, listed.reports, self._asked, began)
        ids = asked.all if not self.looked.is_set() else asked.all[:MOST_IDS]
        self._answer(self._details(ids, listed), shown=listed.states)
        self._prune(listed.states)
        if not self.looked.is_set():
            self._looked(records)
        self._metrics.cycle_seconds.observe(watch.seconds)

    def _details(self, ids: Sequence[str], listed: JobList | None = None) -> JobReports:
        """What became of any number of jobs. More than one block is asked only at the start and for a search."""
        reports: dict[str, JobReport] = {}
        unknown: set[str] = set()
        for first in range(0, len(ids), MOST_IDS):
            found = self._batch.ask(ids[first : first + MOST_IDS], listed)
            reports |= found.reports
            unknown |= found.unknown
        return JobReports(reports, frozenset(unknown))

    def _answer(self, answer: JobReports, shown: Mapping[str, JobState] | None = None) -> None:
        """Hand each report, or the lack of one, to the Pod that it concerns.

        Another user's job counts as unknown: it only has the id that a Pod's job had, or that a file of the Pod names.
        """
        now = time.time()
        answer = self._own_part(answer)
        self._asked |= dict.fromkeys(answer.reports, now)
        others = self.told(answer.reports)
        self._others.update(one for one in shown or () for job_id in others if questions.is_same(one, job_id))
        self._unknown(answer.unknown, now)

    def _own_part(self, answer: JobReports) -> JobReports:
        user = self._records.user
        others = frozenset(job_id for job_id, one in answer.reports.items() if user and one.owner != user)
        if not others:
            return answer
        own = {job_id: one for job_id, one in answer.reports.items() if job_id not in others}
        return JobReports(own, answer.unknown | others)

    def _record_of(self, report: JobReport, now: float) -> Record | None:
        """The record of a job's Pod. A living job of this cluster whose Pod is absent gets a record marked missing."""
        uid = self._uid_of(report)
        known = self._records.get(uid)
        if not uid or (known is not None and known.directory.job_uid):
            return known
        if known is None and report.state is JobState.FINISHED:
            return None
        job, index, _ = questions.place_of(report, self._settings.root) or ("", NO_INDEX, uid)
        record = self._records.found(departed(uid=uid, job_uid=job, index=index, job_id=report.job_id), now)
        if known is not None:
            return record
        fields = {"job": report.job_id, "name": report.name, "user": self._records.user}
        if record is None:
            log.warning("a job names another user's Pod", extra={"fields": fields})
        elif not record.name:
            record.name = report.name.removesuffix(f".{self._settings.cluster}.{uid}")
            log.warning("a job without a Pod", extra={"fields": fields})
        return record

    def _unknown(self, ids: Collection[str], now: float) -> None:
        """Tell the Pods whose jobs the batch system does not know.

        :raises Unavailable: too many jobs vanished at once to be believed
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
            self._doubt = doubted(self._doubt, now)
            if not self._doubt.over(self._settings.lost_proof):
                raise Unavailable(("details",), 0, words)
            log.error(
                "the doubted answer is believed now", extra={"fields": {"user": self._records.user, "words": words}}
            )
        for record, job_id in concerned:
            record.change(partial(outcomes.unknown, job_id=job_id, now=now))
            self._wake(record.uid)

    def _looked(self, records: Iterable[Record]) -> None:
        """Mark each Pod as searched for: all jobs were seen that existed when the records were taken."""
        now = time.time()
        for record in records:
            record.change(_searched(now))
            self._wake(record.uid)
        if self._site_observer is not None:
            self._site_observer.join(self)
        self.looked.set()

    def _prune(self, listed: Mapping[str, JobState]) -> None:
        self._others.intersection_update(listed)
        if len(self._asked) > 2 * len(listed) + MOST_IDS:
            self._asked = {job_id: when for job_id, when in self._asked.items() if job_id in listed}

    def _uid_of(self, report: JobReport) -> str:
        return questions.uid_of(report, self._settings.root, self._settings.cluster)


def _searched(now: float) -> Callable[[Facts], Facts]:
    return lambda facts: outcomes.looked(facts, (), now)
