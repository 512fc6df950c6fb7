"""Asks what became of jobs: lists, details, records of ended jobs. Finds single jobs for which a question fails.

Shell. A word that is not a valid job id counts as unknown without a question. The state learned from answers is in
``remembered``, behind its lock, so several threads may ask at once.
"""

from __future__ import annotations

import logging
import random
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
"""Most ids of one details question: about 40 kB of arguments and 3 MB of answer."""
MOST_PROOFS: Final = 5
"""Most jobs of one question whose absence is proved, if each proof takes a command."""
MOST_NAMED: Final = 50
"""Most jobs of a question that may take a connection for each."""
MOST_APART: Final = 40
"""Most commands spent on finding the jobs for which a question about several fails."""
HELD_SECONDS: Final = 300.0
"""How long a job for which a question failed is left out of further questions."""


@dataclass(frozen=True, slots=True)
class JobReports:
    """What became of the jobs that were asked about.

    ``unknown`` are those that the batch system says it lacks. It could not be asked now about jobs that are missing in
    both.
    """

    reports: Mapping[str, JobReport]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JobList:
    """One list of jobs.

    :param states: the states of the jobs that are not over, by id; an id that a table has cut ends in ``*``
    :param reports: full reports, also of some ended jobs; empty if the list shows states only
    """

    states: Mapping[str, JobState]
    reports: Mapping[str, JobReport]


@dataclass(frozen=True, slots=True)
class BatchJobs:
    """The jobs of one site's batch system, asked about as one user."""

    commands: BatchCommands

    def listed(self, users: str = "") -> JobList:
        """The jobs that are not over.

        :param users: whose jobs, as names joined by commas; empty for the user who asks
        """
        batch, users = self.commands, users or self.commands.user
        batch.remembered.lists(users)
        return batch.ask("list", batch.system.states_argv(users, batch.commands), self._read_list)

    def _read_list(self, output: Output) -> JobList:
        system = self.commands.system
        reports = system.parse_listed(output.stdout, zone=zone())
        states = {job_id: one.state for job_id, one in reports.items()} or system.parse_states(output.stdout)
        self.commands.learn(states)
        return JobList({job_id: one for job_id, one in states.items() if one is not JobState.FINISHED}, reports)

    def details(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Reports of these jobs, as far as there are any; see ``ask`` for what the lack of one means.

        :raises Unavailable: also if one of the jobs, or the records of ended jobs, cannot be asked about now
        """
        told = self._known(job_ids)
        if told.silent:
            raise Unavailable(("details",), 0, f"job {min(told.silent)} cannot be asked about now")
        return dict(self._past(job_ids, told).reports)

    def ask(self, job_ids: Sequence[str], listed: JobList | None = None) -> JobReports:
        """What became of these jobs, at most ``MOST_IDS``.

        * A job with a full report in the list costs no command.
        * A job that has left the batch system's list is looked up in its records, which count only for ended jobs.
        * If absence needs a proof of its own, up to ``MOST_PROOFS`` of the other jobs are asked about one by one.
          An observer skips this, and reports all of them as unknown.

        If the records cannot be asked now, the jobs that they may hold are left out, as the batch system itself has
        answered.

        :param listed: a list that was asked for just before
        """
        told = self._known(job_ids, listed)
        try:
            told = self._past(job_ids, told)
        except Unavailable as error:
            log.warning("the records of ended jobs cannot be asked", extra={"fields": {"error": str(error)}})
        return JobReports(told.reports, told.unknown)

    def _known(self, job_ids: Sequence[str], listed: JobList | None = None) -> JobAnswers:
        """The jobs that the batch system itself knows."""
        shown = None if listed is None else listed.reports
        told = JobAnswers({job_id: shown[job_id] for job_id in job_ids if shown and job_id in shown})
        missing = told.rest(job_ids)
        asked = [job_id for job_id in missing if self._is_asked(job_id)]
        told |= JobAnswers(unknown=frozenset(missing).difference(asked))
        told_all = shown is not None and (shown or self.commands.system.LISTS_ALL)
        if asked and not told_all:
            told |= follow_moved(self.commands, self._apart(asked))
        return told

    def _is_asked(self, job_id: str) -> bool:
        """Whether this is a job id, or the number of one, as tables cut ids."""
        is_id = self.commands.system.is_id
        return is_id(job_id) or ("." not in job_id and is_id(f"{job_id}.s"))

    def _past(self, job_ids: Sequence[str], told: JobAnswers) -> JobAnswers:
        """``told``, completed from the records of ended jobs, and with the jobs that are proved to be absent."""
        batch, system = self.commands, self.commands.system
        missing = [job_id for job_id in told.rest(job_ids) if system.is_id(job_id)]
        if missing:
            past = self._reports(lambda commands: system.past_argv(missing, commands))[0]
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
        return self._reports(lambda commands: self.commands.system.proof_argv(job_id, commands))[0]

    def _reports(
        self, command: Callable[[Commands], tuple[str, ...] | None]
    ) -> tuple[dict[str, JobReport], frozenset[str]]:
        return self.commands.ask_with_history("details", command, self.commands.read_details)

    # --- questions that fail for single jobs ---

    def _apart(self, job_ids: Sequence[str]) -> JobAnswers:
        """What became of these jobs, if needed without the single jobs for which the question fails.

        If the question fails but a list succeeds, single jobs are the cause. They are found by smaller questions,
        returned as ``silent``, and left out of further questions for ``HELD_SECONDS``.

        :raises Unavailable: the batch system is silent, or has never given details of any job. An observer ignores the
            second case, as each user can ask about the own jobs
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
        """Raise the error again unless single jobs may be its cause: the list fails too, or the command timed out."""
        batch = self.commands
        users = batch.remembered.users or batch.user
        if error.returncode is None or not users:
            raise error
        try:
            batch.ask("list", batch.system.states_argv(users, batch.commands), lambda output: output)
        except BatchError:
            raise error from None

    def _parted(self, job_ids: Sequence[str]) -> JobAnswers:
        """Ask about smaller and smaller parts; ``silent`` are jobs that make a question fail, and those left over."""
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
        found, named = self._reports(lambda commands: batch.system.details_argv(unique, commands))
        batch.remembered.answered()
        batch.learn(found)
        told = JobAnswers(found, telling.unknown_of(words, found, named))
        return told if batch.observes else told | self._named(unique, {one: words[one] for one in told.rest(job_ids)})

    def _named(self, asked: Sequence[str], words: Mapping[str, str]) -> JobAnswers:
        """What a second question says of jobs that the answer to the first has left out. An observer need not ask it.

        Of very many it asks about a part by chance, so that each comes in time whatever is told of the others.
        """
        system = self.commands.system
        several = list(dict.fromkeys(words.values()))
        part = several if len(several) <= MOST_NAMED else random.sample(several, MOST_NAMED)
        if not part:
            return JobAnswers()
        found, named = self._reports(lambda commands: system.naming_argv(asked, part, commands))
        return JobAnswers(found, telling.unknown_of(words, found, named))
