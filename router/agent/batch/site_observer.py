"""Looks at all users' jobs as one account, the site's observer: two questions a cycle for any number of users.

Shell: one thread. A job that the observer misses may still be there, as the observer's rights may have gone: then the
Pod's user asks as the owner. After an invalid answer all users ask for themselves, as a strange job name must harm only
its own user.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from router.agent.batch import questions
from router.agent.batch.agenda import Agenda
from router.agent.batch.jobs import MOST_IDS, BatchJobs, JobList, JobReports
from router.agent.batch.reachability import Reachability
from router.agent.metrics import Stopwatch
from router.background.backoff import BackOff
from router.background.loop import Loop
from router.errors import BatchError, OutputError
from router.hpc import JobReport
from router.reconcile.model import Job

log: Final = logging.getLogger("batchgate.agent")


class Member(Protocol):
    """One user whose jobs are looked at. No method waits for the batch system or for files."""

    @property
    def user(self) -> str:
        """The HPC user."""

    @property
    def wants_usage(self) -> bool:
        """Whether somebody wants to know what running jobs use."""

    def jobs(self) -> list[Job]:
        """The jobs of the user's Pods that are not over."""

    def told(self, reports: Mapping[str, JobReport]) -> Sequence[str]:
        """Take reports of this user's jobs; returns the ids of jobs that belong to no Pod."""

    def ask_itself(self, job_ids: Iterable[str]) -> None:
        """Ask about these jobs as the user."""

    def look_itself(self) -> None:
        """Look at all of the user's jobs as the user."""

    def answered(self) -> None:
        """Note that the observer has got an answer."""

    def failed(self, error: BatchError) -> None:
        """Note that the observer got no answer: the state of the user's jobs is unknown now."""


class SiteObserver:
    """Asks as the observer for all users who have joined; ``start`` it, ``stop`` it in the end.

    :param batch: asks as the observer
    :param usual: seconds between two cycles
    :param quick: seconds between two cycles for a minute after a change by the agent
    :param back_off: the pauses before an observer that fails is tried again
    """

    def __init__(self, batch: BatchJobs, *, usual: float, quick: float, back_off: BackOff) -> None:
        self.away = ""
        """Why the observer cannot be asked; empty while it answers, even if the answer is invalid."""
        self._batch = batch
        self._reach = Reachability(_told_reach, back_off)
        self._loop = Loop("site observer", self._turn)
        self._agenda = Agenda(slow=lambda: usual, quick=quick, again=lambda: self._reach.again, wake=self._loop.wake)
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._others: set[str] = set()
        self._asked: dict[str, float] = {}

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, without waiting for a running command."""
        self._loop.stop()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def join(self, member: Member) -> None:
        """Look at this user's jobs too, from the next cycle on."""
        with self._lock:
            self._members[member.user] = member

    def leave(self, member: Member) -> None:
        """Stop looking at this user's jobs."""
        with self._lock:
            self._members.pop(member.user, None)

    def ask(self, job_ids: Iterable[str]) -> None:
        """Ask for details of these jobs within a second."""
        self._agenda.ask(job_ids)

    def hurry(self) -> None:
        """Ask more often for a minute: the agent has changed something, so more is likely to happen soon."""
        self._agenda.hurry()

    def check(self) -> None:
        """Look at everything as soon as possible."""
        self._agenda.check()

    def _turn(self) -> float:
        if (urgent := self._agenda.take()) is not None:
            with self._lock:
                members = dict(self._members)
            self._look(urgent, members)
        return self._agenda.pause()

    def _look(self, urgent: Sequence[str], members: Mapping[str, Member]) -> None:
        try:
            if urgent:
                self._answer(urgent, self._batch.ask(urgent), members)
            elif members:
                self._cycle(members)
                self._reach.answered()
                self.away = ""
                for member in members.values():
                    member.answered()
        except OutputError as error:
            self._reach.failed(error)
            self.away = ""
            for member in members.values():
                member.look_itself()
        except BatchError as error:
            self._reach.failed(error)
            self.away = self._reach.reason
            self._agenda.ask(urgent)
            for member in members.values():
                member.failed(error)

    def _cycle(self, members: Mapping[str, Member]) -> None:
        watch = Stopwatch()
        began = time.time()
        listed = self._batch.listed(",".join(sorted(members)))
        jobs = [job for member in members.values() for job in member.jobs()]
        wanted = questions.questions(listed.states, jobs, self._others, self._asked, began, listed.reports)
        if any(member.wants_usage for member in members.values()):
            wanted = questions.with_figures(wanted, jobs, listed.reports, self._asked, began)
        asked = wanted.all[:MOST_IDS]
        self._answer(asked, self._batch.ask(asked, listed), members, listed)
        self._others.intersection_update(listed.states)
        if len(self._asked) > 2 * len(listed.states) + MOST_IDS:
            self._asked = {job_id: when for job_id, when in self._asked.items() if job_id in listed.states}
        self._batch.commands.metrics.cycle_seconds.observe(watch.seconds)

    def _answer(
        self,
        asked: Sequence[str],
        answer: JobReports,
        members: Mapping[str, Member],
        listed: JobList | None = None,
    ) -> None:
        """Hand each report to its job's owner. A member asks itself about its jobs that have no report as its own."""
        self._asked |= dict.fromkeys(answer.reports, time.time())
        shown = listed.states if listed is not None else ()
        by_owner: dict[str, dict[str, JobReport]] = defaultdict(dict)
        for job_id, report in answer.reports.items():
            by_owner[report.owner][job_id] = report
        for user, member in members.items():
            others = member.told(by_owner[user])
            self._others.update(one for one in shown for job_id in others if questions.is_same(one, job_id))
            followed = {job.job_id for job in member.jobs() if not job.finished}
            # Also a job that another user owns: only this user can prove that it is not the Pod's.
            hidden = [
                job_id
                for job_id in asked
                if job_id in followed and job_id not in by_owner[user]
                if job_id in answer.unknown or job_id in answer.reports
            ]
            if hidden:
                member.ask_itself(hidden)


def _told_reach(reason: str) -> None:
    if reason:
        log.warning("the observer cannot look", extra={"fields": {"words": reason}})
    else:
        log.info("the observer looks again")
