"""What became of jobs: lists, details, records of those that are over, and questions that fail for single jobs.

Shell. What is no job's id is not asked for, whoever says that it is one, and is unknown. Nothing here changes: what
answers have taught is in ``remembered``, behind its lock, so that threads may ask at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from router.agent.batch import answers as telling
from router.agent.batch.answers import JobAnswers
from router.agent.batch.commands import BatchCommands, Output, zone
from router.agent.batch.moved import follow_moved
from router.errors import BatchError, Unavailable
from router.hpc import Commands, JobReport, JobState

log: Final = logging.getLogger("batchgate")

MOST_IDS: Final = 2000
"""Ids of one details question: about 40 kB of arguments and 3 MB of answer."""
MOST_PROOFS: Final = 5
"""Jobs of one question whose absence is proved, where that takes a command for each."""
LISTED_SECONDS: Final = 1.0
"""How long a list that told everything is not asked for again."""
MOST_APART: Final = 40
"""Commands that are spent on finding the jobs for which a question about several fails."""
HELD_SECONDS: Final = 300.0
"""How long jobs for which a question fails are left out of the next ones."""


@dataclass(frozen=True, slots=True)
class JobReports:
    """What became of the jobs that were asked about.

    ``unknown`` are those that the batch system says it does not have. Those in neither could not be asked about now.
    """

    reports: Mapping[str, JobReport]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JobList:
    """One list: ``states`` of the jobs that are not over, by id (which a table may have cut: it then ends in ``*``).

    ``reports`` are of those of which it has told all there is, also of some that are over; none where a list tells of
    states alone.
    """

    states: Mapping[str, JobState]
    reports: Mapping[str, JobReport]


@dataclass(frozen=True, slots=True)
class BatchJobs:
    """The jobs of one site's batch system, asked about as one user."""

    commands: BatchCommands

    def listed(self, users: str = "") -> JobList:
        """The jobs that are not over.

        :param users: in place of the one who asks; names joined by commas
        """
        batch, users = self.commands, users or self.commands.user
        batch.remembered.lists(users)
        return batch.ask("list", batch.system.states_argv(users, batch.commands), self._read_list)

    def _read_list(self, output: Output) -> JobList:
        system, remembered = self.commands.system, self.commands.remembered
        reports = system.parse_listed(output.stdout, zone=zone())
        remembered.listed(reports, time.monotonic())
        states = {job_id: one.state for job_id, one in reports.items()} or system.parse_states(output.stdout)
        self.commands.learn(states)
        return JobList({job_id: one for job_id, one in states.items() if one is not JobState.FINISHED}, reports)

    def details(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Reports of these jobs, as far as there are any; see ``ask`` for what the lack of one means.

        Unavailable also where one of them cannot be asked about now, or only the records of jobs that are over.
        """
        told = self._known(job_ids)
        if told.silent:
            raise Unavailable(("details",), 0, f"job {min(told.silent)} cannot be asked about now")
        return dict(self._past(job_ids, told).reports)

    def ask(self, job_ids: Sequence[str], listed: JobList | None = None) -> JobReports:
        """What became of these jobs, of which there are at most ``MOST_IDS``.

        ``listed``: a list that was asked for just before this, however long ago that seems; else any of the last second
        counts.

        Those that the list has told all about cost no command. What has left the batch system's own list is
        looked for in its records, whose word is taken only for jobs that are over; then, where absence needs a proof
        of its own, so many of the rest are asked about one by one, but not by an observer, to whom all of these are
        unknown. Where the records cannot be asked now, nothing is said of what they may hold: the batch system itself
        has answered.
        """
        told = self._known(job_ids, listed)
        try:
            told = self._past(job_ids, told)
        except Unavailable as error:
            log.warning("the records of ended jobs cannot be asked", extra={"fields": {"error": str(error)}})
        return JobReports(told.reports, told.unknown)

    def _known(self, job_ids: Sequence[str], listed: JobList | None = None) -> JobAnswers:
        """The jobs that the batch system itself knows."""
        shown = self.commands.remembered.last_list(time.monotonic() - LISTED_SECONDS)
        if listed is not None:
            shown = listed.reports
        told = JobAnswers({job_id: shown[job_id] for job_id in job_ids if shown and job_id in shown})
        missing = told.rest(job_ids)
        asked = [job_id for job_id in missing if self._is_asked(job_id)]
        told |= JobAnswers(unknown=frozenset(missing).difference(asked))
        told_all = shown is not None and (shown or self.commands.system.LISTS_ALL)
        if asked and not told_all:
            told |= follow_moved(self.commands, self._apart(asked))
        return told

    def _is_asked(self, job_id: str) -> bool:
        """Whether it is an id, or the number of one, as of an id that a table has cut."""
        is_id = self.commands.system.is_id
        return is_id(job_id) or ("." not in job_id and is_id(f"{job_id}.s"))

    def _past(self, job_ids: Sequence[str], told: JobAnswers) -> JobAnswers:
        """The same with what the records tell of the others, and which of these are proved not to be there."""
        batch, system = self.commands, self.commands.system
        missing = [job_id for job_id in told.rest(job_ids) if system.is_id(job_id)]
        if missing:
            past = self._reports(lambda commands: system.past_argv(missing, commands))
            told |= JobAnswers({job_id: one for job_id, one in past.items() if one.state is JobState.FINISHED})
            missing = told.rest(missing)
        if batch.observes:
            return told | JobAnswers(unknown=told.silent.union(missing))
        if not missing or system.proof_argv(missing[0], batch.commands) is None:
            return told
        for job_id in missing[:MOST_PROOFS]:
            found = self._proved(job_id)
            told |= JobAnswers(found, frozenset({job_id}.difference(found)))
        return told

    def _proved(self, job_id: str) -> dict[str, JobReport]:
        return self._reports(lambda commands: self.commands.system.proof_argv(job_id, commands))

    def _reports(self, command: Callable[[Commands], tuple[str, ...] | None]) -> dict[str, JobReport]:
        batch = self.commands
        return batch.ask_with_history("details", command, lambda output: batch.read_details(output)[0])

    # --- questions that fail for single jobs ---

    def _apart(self, job_ids: Sequence[str]) -> JobAnswers:
        """What became of these jobs. Where one question fails though the list does not, it is the jobs that it fails for:
        they are found, told nothing of, and left out of the questions of the next minutes.

        Unavailable: the batch system does not answer, or has never told anything of any job; to an observer not the
        latter, as each user can ask about the own jobs.
        """
        remembered, now = self.commands.remembered, time.monotonic()
        left = remembered.held(now)
        asked = [job_id for job_id in job_ids if job_id not in left]
        held = JobAnswers(silent=frozenset(job_ids).difference(asked))
        try:
            return held | self._question(asked) if asked else held
        except Unavailable as error:
            self._demand_list(error)
            told = self._parted(asked)
            if not remembered.has_answered and not self.commands.observes:
                raise
            fields = {"error": str(error)[:2000], "jobs": sorted(told.silent)[:20]}
        remembered.hold(told.silent, now + HELD_SECONDS)
        log.warning("jobs that cannot be asked about", extra={"fields": fields})
        return held | told

    def _demand_list(self, error: Unavailable) -> None:
        """Raise the error where it is not about single jobs: the list cannot be had either, or nothing came in time."""
        batch = self.commands
        users = batch.remembered.users or batch.user
        if error.returncode is None or not users:
            raise error
        try:
            batch.ask("list", batch.system.states_argv(users, batch.commands), lambda output: output)
        except BatchError:
            raise error from None

    def _parted(self, job_ids: Sequence[str]) -> JobAnswers:
        """Ask for smaller and smaller parts; ``silent`` are the jobs that make a question fail, and those not reached."""
        told, parts = JobAnswers(), telling.halves(job_ids)
        for _ in range(MOST_APART):
            if not parts:
                break
            part = parts.pop()
            try:
                told |= self._question(part)
            except Unavailable as error:
                if error.returncode is None:
                    raise
                if len(part) > 1:
                    parts += telling.halves(part)
                else:
                    told |= JobAnswers(silent=frozenset(part))
        return told | JobAnswers(silent=frozenset(job_id for part in parts for job_id in part))

    def _question(self, job_ids: Sequence[str]) -> JobAnswers:
        batch = self.commands
        servers = batch.remembered.servers
        words = {job_id: telling.word_for(job_id, servers) for job_id in job_ids}
        unique = tuple(dict.fromkeys(words.values()))
        found, named = batch.ask_with_history(
            "details", lambda commands: batch.system.details_argv(unique, commands), batch.read_details
        )
        batch.remembered.answered()
        batch.learn(found)
        return JobAnswers(found, telling.unknown_of(words, found, named))
