"""The batch system's commands as one site has them: run, judged, counted.

Shell. Every command has a time limit; every failure is a BatchError, as the batch system's module judges it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Final, TypeVar

from router.agent.metrics import Metrics, Stopwatch
from router.errors import BatchError, Full, OutputError, Refused, Unavailable
from router.host import Runner
from router.hpc import BatchSystem, Commands, JobReport, JobState, NoHistory, QueueState, Submission

T = TypeVar("T")
Parsed = TypeVar("Parsed", dict[str, JobReport], tuple[str, ...])

MOST_IDS: Final = 2000
"""Ids of one details question: about 40 kB of arguments and 3 MB of answer."""
MOST_PROOFS: Final = 5
"""Jobs of one question whose absence is proved, where that takes a command for each."""
LISTED_SECONDS: Final = 1.0
"""How long a list that told everything is not asked for again."""

_OUTCOMES: Final = ((Full, "full"), (Refused, "refused"), (OutputError, "not understood"), (Unavailable, "unavailable"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the jobs that were asked about.

    ``unknown`` are those that the batch system says it does not have. Those in neither could not be asked about now.
    """

    reports: Mapping[str, JobReport]
    unknown: frozenset[str] = frozenset()


class Batch:
    """One site's batch system, asked and told as one user.

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
        self._commands = commands
        self._seconds = seconds
        self.metrics = metrics
        self._log = logging.getLogger("batchgate")
        self._listed: tuple[float, Mapping[str, JobReport]] = (-math.inf, {})

    def submit(self, submission: Submission) -> str:
        """The new job's id. Refused, Full, Unavailable (the job may exist all the same), OutputError (so may it)."""
        argv = self._system.submit_argv(submission, self._commands)
        return self._counted("submit", lambda: self._system.job_id(self._run(argv)))

    def find(self, name: str) -> tuple[str, ...]:
        """Ids of the jobs of exactly that name, also finished ones, oldest first."""
        return self._asked(
            "find", lambda: self._system.list_argv(name=name, commands=self._commands), self._system.parse_list
        )

    def states(self, users: str = "") -> dict[str, JobState]:
        """States of our jobs that are not over, by id (which a table may have cut: it then ends in ``*``).

        :param users: in place of the one whose jobs are listed
        """
        argv = self._system.states_argv(users or self.user, self._commands)
        return self._counted("list", lambda: self._states(self._run(argv)))

    def _states(self, stdout: str) -> dict[str, JobState]:
        reports = self._system.parse_listed(stdout, zone=_zone())
        self._listed = (time.monotonic(), reports)
        states = {job_id: one.state for job_id, one in reports.items()} or self._system.parse_states(stdout)
        return {job_id: state for job_id, state in states.items() if state is not JobState.FINISHED}

    def details(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Reports of these jobs, as far as there are any; see ``ask`` for what the lack of one means.

        Unavailable also where only the records of jobs that are over cannot be asked.
        """
        reports = self._known(job_ids)
        return self._past(job_ids, reports)[0]

    def ask(self, job_ids: Sequence[str], *, listed: bool = False) -> Answer:
        """What became of these jobs, of which there are at most ``MOST_IDS``.

        ``listed``: the list was asked for just before this, however long ago that seems.


        Those that the list has just told all about cost no command. What has left the batch system's own list is
        looked for in its records, whose word is taken only for jobs that are over; then, where absence needs a proof
        of its own, so many of the rest are asked about one by one, but not by an observer, to whom all of these are
        unknown. Where the records cannot be asked now, nothing is said of what they may hold.
        """
        reports = self._known(job_ids, listed=listed)
        try:
            return Answer(*self._past(job_ids, reports))
        except Unavailable as error:
            if not reports and not self._observer:
                raise
            self._log.warning("the records of ended jobs cannot be asked", extra={"fields": {"error": str(error)}})
            return Answer(reports)

    def _known(self, job_ids: Sequence[str], *, listed: bool = False) -> dict[str, JobReport]:
        """The jobs that the batch system itself knows."""
        then, shown = self._listed
        fresh = listed or time.monotonic() - then <= LISTED_SECONDS
        reports = {job_id: shown[job_id] for job_id in job_ids if fresh and job_id in shown}
        missing = [job_id for job_id in job_ids if job_id not in reports]
        if missing and not (fresh and (shown or self._system.LISTS_ALL)):
            reports |= self._followed(self._reports(self._system.details_argv, missing))
        return reports

    def _past(
        self, job_ids: Sequence[str], known: Mapping[str, JobReport]
    ) -> tuple[dict[str, JobReport], frozenset[str]]:
        """Those and what the records tell of the others, and which of these are proved not to be there."""
        reports = dict(known)
        missing = self._missing(job_ids, reports)
        if missing:
            past = self._reports(self._system.past_argv, missing)
            reports |= {job_id: one for job_id, one in past.items() if one.state is JobState.FINISHED}
            missing = self._missing(missing, reports)
        unknown = set(missing)
        if missing and not self._observer and self._system.proof_argv(missing[0], self._commands) is not None:
            proofs = [self._reports(self._proof, [job_id]) for job_id in missing[:MOST_PROOFS]]
            reports |= {job_id: one for found in proofs for job_id, one in found.items()}
            unknown = set(missing[:MOST_PROOFS]).difference(reports)
        return reports, frozenset(unknown)

    def _missing(self, job_ids: Sequence[str], reports: Mapping[str, JobReport]) -> list[str]:
        return [job_id for job_id in job_ids if job_id not in reports and self._system.is_id(job_id)]

    def _followed(self, reports: Mapping[str, JobReport]) -> dict[str, JobReport]:
        """The reports with those of jobs that were moved to another server as that one tells them, where it does."""
        found = dict(reports)
        for job_id, report in reports.items():
            server = report.queue.partition("@")[2]
            if report.state is JobState.MOVED and server:
                found |= self._reports(self._system.details_argv, [f"{job_id}@{server}"])
        return found

    def _proof(self, job_ids: Sequence[str], commands: Commands) -> tuple[str, ...] | None:
        return self._system.proof_argv(job_ids[0], commands)

    def _reports(
        self, command: Callable[[Sequence[str], Commands], tuple[str, ...] | None], job_ids: Sequence[str]
    ) -> dict[str, JobReport]:
        return self._asked(
            "details",
            lambda: command(job_ids, self._commands),
            lambda stdout: self._system.parse_details(stdout, zone=_zone()),
        )

    def _asked(
        self, kind: str, command: Callable[[], tuple[str, ...] | None], parse: Callable[[str], Parsed]
    ) -> Parsed:
        """What a command's output means; of no command, that of nothing.

        A batch system that keeps no history says so once; from then on it is asked as such.
        """
        try:
            return self._told(kind, command(), parse)
        except NoHistory as error:
            if not self._commands.history:
                raise
            self._log.warning(
                "the batch system keeps no records of ended jobs", extra={"fields": {"words": error.words}}
            )
            self._commands = replace(self._commands, history=False)
        return self._told(kind, command(), parse)

    def _told(self, kind: str, argv: Sequence[str] | None, parse: Callable[[str], Parsed]) -> Parsed:
        return parse("") if argv is None else self._counted(kind, lambda: parse(self._run(argv)))

    def queues(self) -> dict[str, QueueState]:
        """How the queues and their nodes are, by the queue's name."""
        argvs = self._system.queues_argvs(self._commands)
        return self._counted("queues", lambda: self._system.parse_queues([self._run(argv) for argv in argvs]))

    def cancel(self, job_ids: Sequence[str], *, force: bool = False) -> None:
        """End these jobs, queued or running; by force also those that are ending already, or whose node is away."""
        for job_id in job_ids:
            argv = self._system.cancel_argv(job_id, self._commands, force=force)
            self._counted("cancel", partial(self._run, argv))

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to a running job's script."""
        argv = self._system.signal_argv(job_id, signal, self._commands)
        self._counted("signal", lambda: self._run(argv))

    def _run(self, argv: Sequence[str]) -> str:
        done = self._host.run(argv, self._seconds)
        failure = self._system.failure(argv, done.returncode, done.stderr.decode(errors="replace"))
        if failure is not None:
            raise failure
        return done.stdout.decode(errors="surrogateescape")

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
