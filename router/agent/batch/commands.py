"""The batch system's commands as one site has them: run, judged, counted.

Shell. Every command has a time limit; every failure is a BatchError, as the batch system's module judges it.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Final, TypeVar

from router.agent.batch import answers as telling
from router.agent.batch.answers import JobAnswers
from router.agent.batch.remembered import Remembered
from router.agent.metrics import Metrics, Stopwatch
from router.errors import BatchError, Full, OutputError, Refused, Unavailable
from router.host import Runner
from router.hpc import BatchSystem, Commands, JobReport, JobState, NoHistory, QueueReport, Submission, remarks

T = TypeVar("T")

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
HISTORY_SECONDS: Final = 600.0
"""How long records are not asked for of a batch system that keeps none."""
AWAY_SECONDS: Final = 60.0
"""How long another server, which has some of our jobs and could not be asked, is not asked again."""

_SERVER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}(?::[0-9]{1,5})?")
_OUTCOMES: Final = ((Full, "full"), (Refused, "refused"), (OutputError, "not understood"), (Unavailable, "unavailable"))


@dataclass(frozen=True, slots=True)
class JobReports:
    """What became of the jobs that were asked about.

    ``unknown`` are those that the batch system says it does not have. Those in neither could not be asked about now.
    """

    reports: Mapping[str, JobReport]
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Output:
    """What a command has printed."""

    stdout: str = ""
    stderr: str = ""


class Batch:
    """One site's batch system, asked and told as one user.

    What is no job's id is not asked for, whoever says that it is one, and is unknown; see ``told`` for the rest.

    :param user: whose jobs are listed; several users' names are joined by commas
    :param seconds: for each command
    :param observer: it is asked as the site's observer, from whom jobs may be hidden: that it has no word of a job is no
        proof. It only looks, which its ``host`` sees to
    """

    def __init__(  # noqa: PLR0913 - as the site has them
        self,
        host: Runner,
        system: BatchSystem,
        commands: Commands,
        *,
        user: str,
        seconds: float,
        metrics: Metrics,
        observer: bool = False,
    ) -> None:
        self.user = user
        self._observer = observer
        self.name_limit = system.NAME_LIMIT
        self._host = host
        self._system = system
        self._commands = self._wanted = commands
        self._no_history_until = -math.inf
        self._seconds = seconds
        self.metrics = metrics
        self._log = logging.getLogger("batchgate")
        self._listed: tuple[float, Mapping[str, JobReport]] = (-math.inf, {})
        self._users = user
        self._able = False
        self._remembered = Remembered()

    def submit(self, submission: Submission) -> str:
        """The new job's id. Refused, Full, Unavailable (the job may exist all the same), OutputError (so may it)."""
        return self.submitted(submission).job_id

    def submitted(self, submission: Submission) -> remarks.Submitted:
        """The new job's id and what filters and hooks have printed beside it; it raises what ``submit`` does."""
        argv = self._system.submit_argv(submission, self._commands)

        def ask() -> remarks.Submitted:
            output = self._run(argv)
            return remarks.submitted(output.stdout, output.stderr, self._system.job_id)

        found = self._counted("submit", ask)
        self._learn([found.job_id])
        return found

    def find(self, name: str) -> tuple[str, ...]:
        """Ids of the user's jobs of exactly that name, also finished ones, oldest first."""
        found = self._asked(
            "find",
            lambda commands: self._system.list_argv(user=self.user, name=name, commands=commands),
            lambda output: self._system.parse_list(output.stdout),
        )
        self._learn(found)
        return found

    def states(self, users: str = "") -> dict[str, JobState]:
        """States of our jobs that are not over, by id (which a table may have cut: it then ends in ``*``).

        :param users: in place of the one whose jobs are listed
        """
        self._users = users or self.user
        argv = self._system.states_argv(self._users, self._commands)
        return self._counted("list", lambda: self._states(self._run(argv).stdout))

    @property
    def told(self) -> Mapping[str, JobReport]:
        """Reports of the jobs of which the last list has told all there is; none where a list tells of states alone."""
        return self._listed[1]

    def _states(self, stdout: str) -> dict[str, JobState]:
        reports = self._system.parse_listed(stdout, zone=_zone())
        self._listed = (time.monotonic(), reports)
        states = {job_id: one.state for job_id, one in reports.items()} or self._system.parse_states(stdout)
        self._learn(states)
        return {job_id: state for job_id, state in states.items() if state is not JobState.FINISHED}

    def details(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Reports of these jobs, as far as there are any; see ``ask`` for what the lack of one means.

        Unavailable also where one of them cannot be asked about now, or only the records of jobs that are over.
        """
        told = self._known(job_ids)
        if told.silent:
            raise Unavailable(("details",), 0, f"job {min(told.silent)} cannot be asked about now")
        return dict(self._past(job_ids, told).reports)

    def ask(self, job_ids: Sequence[str], *, listed: bool = False) -> JobReports:
        """What became of these jobs, of which there are at most ``MOST_IDS``.

        ``listed``: the list was asked for just before this, however long ago that seems.

        Those that the list has just told all about cost no command. What has left the batch system's own list is
        looked for in its records, whose word is taken only for jobs that are over; then, where absence needs a proof
        of its own, so many of the rest are asked about one by one, but not by an observer, to whom all of these are
        unknown. Where the records cannot be asked now, nothing is said of what they may hold: the batch system itself
        has answered.
        """
        told = self._known(job_ids, listed=listed)
        try:
            told = self._past(job_ids, told)
        except Unavailable as error:
            self._log.warning("the records of ended jobs cannot be asked", extra={"fields": {"error": str(error)}})
        return JobReports(told.reports, told.unknown)

    def _known(self, job_ids: Sequence[str], *, listed: bool = False) -> JobAnswers:
        """The jobs that the batch system itself knows."""
        then, shown = self._listed
        fresh = listed or time.monotonic() - then <= LISTED_SECONDS
        told = JobAnswers({job_id: shown[job_id] for job_id in job_ids if fresh and job_id in shown})
        missing = told.rest(job_ids)
        asked = [job_id for job_id in missing if self._is_asked(job_id)]
        told |= JobAnswers(unknown=frozenset(missing).difference(asked))
        if asked and not (fresh and (shown or self._system.LISTS_ALL)):
            told |= self._followed(self._apart(asked))
        return told

    def _is_asked(self, job_id: str) -> bool:
        """Whether it is an id, or the number of one, as of an id that a table has cut."""
        return self._system.is_id(job_id) or ("." not in job_id and self._system.is_id(f"{job_id}.s"))

    def _past(self, job_ids: Sequence[str], told: JobAnswers) -> JobAnswers:
        """The same with what the records tell of the others, and which of these are proved not to be there."""
        missing = [job_id for job_id in told.rest(job_ids) if self._system.is_id(job_id)]
        if missing:
            past = self._reports(lambda commands: self._system.past_argv(missing, commands))
            told |= JobAnswers({job_id: one for job_id, one in past.items() if one.state is JobState.FINISHED})
            missing = told.rest(missing)
        if self._observer:
            return told | JobAnswers(unknown=told.silent.union(missing))
        if not missing or self._system.proof_argv(missing[0], self._commands) is None:
            return told
        for job_id in missing[:MOST_PROOFS]:
            found = self._proved(job_id)
            told |= JobAnswers(found, frozenset({job_id}.difference(found)))
        return told

    def _proved(self, job_id: str) -> dict[str, JobReport]:
        return self._reports(lambda commands: self._system.proof_argv(job_id, commands))

    def _apart(self, job_ids: Sequence[str]) -> JobAnswers:
        """What became of these jobs. Where one question fails though the list does not, it is the jobs that it fails for:
        they are found, told nothing of, and left out of the questions of the next minutes.

        Unavailable: the batch system does not answer, or has never told anything of any job; to an observer not the
        latter, as each user can ask about the own jobs.
        """
        now = time.monotonic()
        left = self._remembered.held(now)
        asked = [job_id for job_id in job_ids if job_id not in left]
        held = JobAnswers(silent=frozenset(job_ids).difference(asked))
        try:
            return held | self._question(asked) if asked else held
        except Unavailable as error:
            self._demand_list(error)
            told = self._parted(asked)
            if not self._able and not self._observer:
                raise
            fields = {"error": str(error)[:2000], "jobs": sorted(told.silent)[:20]}
        self._remembered.hold(told.silent, now + HELD_SECONDS)
        self._log.warning("jobs that cannot be asked about", extra={"fields": fields})
        return held | told

    def _demand_list(self, error: Unavailable) -> None:
        """Raise the error where it is not about single jobs: the list cannot be had either, or nothing came in time."""
        if error.returncode is None or not self._users:
            raise error
        argv = self._system.states_argv(self._users, self._commands)
        try:
            self._counted("list", lambda: self._run(argv))
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
        servers = self._remembered.servers
        words = {job_id: telling.word_for(job_id, servers) for job_id in job_ids}
        unique = tuple(dict.fromkeys(words.values()))
        found, named = self._asked(
            "details", lambda commands: self._system.details_argv(unique, commands), self._read_details
        )
        self._able = True
        self._learn(found)
        return JobAnswers(found, telling.unknown_of(words, found, named))

    def _read_details(self, output: _Output) -> tuple[dict[str, JobReport], frozenset[str]]:
        """Reports, and the ids that are said to be unknown."""
        reports = self._system.parse_details(output.stdout, zone=_zone())
        return reports, self._system.unknown_ids(output.stderr)

    def _learn(self, job_ids: Iterable[str]) -> None:
        """Servers may be asked that stand in ids of the batch system's own answers."""
        whole = (job_id for job_id in job_ids if self._system.is_id(job_id))
        self._remembered.learn({server for job_id in whole if (server := telling.server_of(job_id))})

    def _followed(self, told: JobAnswers) -> JobAnswers:
        """The same with jobs that were moved to another server as that one tells of them: one question a server.

        Of those that it knows no more neither does anybody else; while it cannot be asked, nothing is said of its jobs.
        """
        moved: dict[str, list[str]] = {}
        for job_id, report in told.reports.items():
            server = report.queue.partition("@")[2]
            if report.state is JobState.MOVED and _SERVER.fullmatch(server):
                moved.setdefault(server, []).append(job_id)
        for server, job_ids in moved.items():
            told = telling.followed(told, server, job_ids, self._there(server, job_ids))
        return told

    def _there(self, server: str, job_ids: Sequence[str]) -> JobAnswers | None:
        """What another server tells of these jobs; None where it cannot be asked now."""
        if self._remembered.is_away(server, time.monotonic()):
            return None
        words = [f"{job_id}@{server}" for job_id in job_ids]
        try:
            try:
                argv = self._system.details_argv(words, self._commands)
                found, named = self._told("details", argv, self._read_details)
            except NoHistory:  # it keeps none, whatever our own does
                argv = self._system.details_argv(words, replace(self._commands, history=False))
                found, named = self._told("details", argv, self._read_details)
        except BatchError as error:
            self._remembered.away(server, time.monotonic() + AWAY_SECONDS)
            fields = {"server": server, "error": str(error)[:2000]}
            self._log.warning("a server that jobs were moved to cannot be asked", extra={"fields": fields})
            return None
        same = {job_id: job_id for job_id in job_ids}
        return JobAnswers(found, telling.unknown_of(same, found, named))

    def _reports(self, command: Callable[[Commands], tuple[str, ...] | None]) -> dict[str, JobReport]:
        return self._asked("details", command, lambda output: self._read_details(output)[0])

    def _asked(
        self, kind: str, command: Callable[[Commands], tuple[str, ...] | None], parse: Callable[[_Output], T]
    ) -> T:
        """What a command's output means; of no command, that of nothing.

        A batch system that keeps no history says so; for a while it is asked as such, which tells nothing of jobs that
        are over should it keep one by then.
        """
        if time.monotonic() >= self._no_history_until:
            self._commands = self._wanted
        commands = self._commands  # another thread may learn meanwhile that there is no history
        try:
            return self._told(kind, command(commands), parse)
        except NoHistory as error:
            if not commands.history:
                raise
            if self._no_history_until == -math.inf:
                self._log.warning(
                    "the batch system keeps no records of ended jobs", extra={"fields": {"words": error.words}}
                )
            self._no_history_until = time.monotonic() + HISTORY_SECONDS
            commands = self._commands = replace(commands, history=False)
        return self._told(kind, command(commands), parse)

    def _told(self, kind: str, argv: Sequence[str] | None, parse: Callable[[_Output], T]) -> T:
        return parse(_Output()) if argv is None else self._counted(kind, lambda: parse(self._run(argv)))

    def queues(self) -> dict[str, QueueReport]:
        """How the queues and their nodes are, by the queue's name."""
        argvs = self._system.queues_argvs(self._commands)
        return self._counted("queues", lambda: self._system.parse_queues([self._run(argv).stdout for argv in argvs]))

    def cancel(self, job_ids: Sequence[str], *, force: bool = False) -> None:
        """End these jobs, queued or running; by force also those that are ending already, or whose node is away."""
        for job_id in job_ids:
            argv = self._system.cancel_argv(job_id, self._commands, force=force)
            self._counted("cancel", partial(self._run, argv))

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to a running job's script."""
        argv = self._system.signal_argv(job_id, signal, self._commands)
        self._counted("signal", lambda: self._run(argv))

    def signal_ends(self, report: JobReport) -> bool:
        """Whether any signal kills at once what this job runs."""
        return self._system.signal_ends(report)

    def _run(self, argv: Sequence[str]) -> _Output:
        done = self._host.run(argv, self._seconds)
        stderr = done.stderr.decode(errors="replace")
        failure = self._system.failure(argv, done.returncode, stderr)
        if failure is not None:
            raise failure
        return _Output(done.stdout.decode(errors="surrogateescape"), stderr)

    def _counted(self, kind: str, ask: Callable[[], T]) -> T:
        watch = Stopwatch()
        outcome = "ok"
        try:
            return ask()
        except BatchError as error:
            outcome = next((word for kind_of, word in _OUTCOMES if isinstance(error, kind_of)), "failed")
            if isinstance(error, OutputError):
                self.metrics.wrong_output.inc()
                self._log.error("not understood", extra={"fields": {"command": kind, "error": str(error)[:2000]}})
            raise
        finally:
            kind = f"observer-{kind}" if self._observer else kind
            self.metrics.commands.labels(kind, outcome).inc()
            self.metrics.command_seconds.labels(kind).observe(watch.seconds)


def _zone() -> tzinfo:
    """The zone of this machine, as the batch system's own times carry none."""
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None  # noqa: S101 - astimezone always gives one
    return zone
