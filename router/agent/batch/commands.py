"""Runs the batch system's commands on one site, judges their outcome and counts them.

Shell. Every command has a time limit. Every failure is a BatchError, chosen by the batch system's module.
``router.agent.batch.jobs`` asks what became of jobs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Final, TypeVar

from router.agent.batch.answers import server_of
from router.agent.batch.remembered import Remembered
from router.agent.metrics import Metrics, Stopwatch
from router.errors import BatchError, Full, OutputError, Refused, Unavailable
from router.host import Runner
from router.hpc import BatchSystem, Commands, JobReport, NoHistory, QueueReport, Submission, remarks

T = TypeVar("T")

HISTORY_SECONDS: Final = 600.0
"""How long a batch system that keeps no records of ended jobs is asked without them."""

_OUTCOMES: Final = ((Full, "full"), (Refused, "refused"), (OutputError, "not understood"), (Unavailable, "unavailable"))

log: Final = logging.getLogger("batchgate")


@dataclass(frozen=True, slots=True)
class Output:
    """The output of a command."""

    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class BatchCommands:
    """The commands of one site's batch system, run as one user. Threads may share it, as ``remembered`` has a lock.

    :param user: the user who runs the commands and whose jobs are searched
    :param seconds: time limit of each command
    :param observes: whether ``user`` is the site's observer. Jobs may be hidden from it, so a missing job proves
        nothing. It only looks: its ``host`` refuses all else
    """

    host: Runner
    system: BatchSystem
    commands: Commands
    user: str
    seconds: float
    metrics: Metrics
    observes: bool = False
    remembered: Remembered = field(default_factory=Remembered)

    @property
    def name_limit(self) -> int:
        """The longest name that a job may have; 0 for no limit."""
        return self.system.NAME_LIMIT

    def submit(self, submission: Submission) -> remarks.Submitted:
        """Submit a job; returns its id, and the text that filters and hooks have printed beside it.

        :raises BatchError: after Refused and Full there is no job; Unavailable and OutputError leave that open
        """
        argv = self.system.submit_argv(submission, self.commands)
        found = self.ask(
            "submit", argv, lambda output: remarks.submitted(output.stdout, output.stderr, self.system.job_id)
        )
        self.learn([found.job_id])
        return found

    def find(self, name: str) -> tuple[str, ...]:
        """Ids of the user's jobs with exactly this name, finished ones included, oldest first."""
        found = self.ask_with_history(
            "find",
            lambda commands: self.system.list_argv(user=self.user, name=name, commands=commands),
            lambda output: self.system.parse_list(output.stdout),
        )
        self.learn(found)
        return found

    def queues(self) -> dict[str, QueueReport]:
        """The state of the queues and their nodes, by the queue's name."""
        argvs = self.system.queues_argvs(self.commands)
        return self._counted("queues", lambda: self.system.parse_queues([self._run(argv).stdout for argv in argvs]))

    def cancel(self, job_ids: Sequence[str], *, force: bool = False) -> None:
        """End these jobs, queued or running. ``force`` also ends jobs that are already ending or whose node is away."""
        for job_id in job_ids:
            self.ask("cancel", self.system.cancel_argv(job_id, self.commands, force=force), _nothing)

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to a running job's script."""
        self.ask("signal", self.system.signal_argv(job_id, signal, self.commands), _nothing)

    def signal_ends(self, report: JobReport) -> bool:
        """Whether any signal at once kills the processes of this job."""
        return self.system.signal_ends(report)

    # --- for modules that ask about jobs ---

    def ask(self, kind: str, argv: Sequence[str] | None, parse: Callable[[Output], T]) -> T:
        """The parsed output of one command; of empty output if ``argv`` is None.

        :param kind: the command's name in the metrics
        :raises BatchError: the command failed; also the errors of ``parse``
        """
        return parse(Output()) if argv is None else self._counted(kind, lambda: parse(self._run(argv)))

    def ask_with_history(
        self, kind: str, command: Callable[[Commands], tuple[str, ...] | None], parse: Callable[[Output], T]
    ) -> T:
        """``ask`` for a command that may ask for jobs that are over.

        A batch system that keeps no history says so, and is then asked without history for ``HISTORY_SECONDS``. If it
        starts to keep one meanwhile, ended jobs stay hidden until that time is over.
        """
        commands = self.present()
        try:
            return self.ask(kind, command(commands), parse)
        except NoHistory as error:
            if not commands.history:
                raise
            if self.remembered.lacks_history(time.monotonic() + HISTORY_SECONDS):
                log.warning("the batch system keeps no records of ended jobs", extra={"fields": {"words": error.words}})
        return self.ask(kind, command(replace(commands, history=False)), parse)

    def present(self) -> Commands:
        """The command settings to use now; without history while the batch system is known to keep none."""
        return self.commands if self.remembered.has_history(time.monotonic()) else replace(self.commands, history=False)

    def learn(self, job_ids: Iterable[str]) -> None:
        """Remember the servers in ids of the batch system's own answers: they may be asked from now on."""
        whole = (job_id for job_id in job_ids if self.system.is_id(job_id))
        self.remembered.learn({server for job_id in whole if (server := server_of(job_id))})

    def read_details(self, output: Output) -> tuple[dict[str, JobReport], frozenset[str]]:
        """Reports by id, and the ids that the batch system calls unknown. Raises OutputError."""
        reports = self.system.parse_details(output.stdout, zone=zone())
        return reports, self.system.unknown_ids(output.stderr)

    def _run(self, argv: Sequence[str]) -> Output:
        done = self.host.run(argv, self.seconds)
        stderr = done.stderr.decode(errors="replace")
        failure = self.system.failure(argv, done.returncode, stderr)
        if failure is not None:
            raise failure
        return Output(done.stdout.decode(errors="surrogateescape"), stderr)

    def _counted(self, kind: str, ask: Callable[[], T]) -> T:
        watch = Stopwatch()
        outcome = "ok"
        try:
            return ask()
        except BatchError as error:
            outcome = next((word for kind_of, word in _OUTCOMES if isinstance(error, kind_of)), "failed")
            if isinstance(error, OutputError):
                self.metrics.wrong_output.inc()
                fields = {"command": kind, "error": str(error)[:2000]}
                log.error("not understood", extra={"fields": fields})  # noqa: TRY400 - the stack adds no information
            raise
        finally:
            kind = f"observer-{kind}" if self.observes else kind
            self.metrics.commands.labels(kind, outcome).inc()
            self.metrics.command_seconds.labels(kind).observe(watch.seconds)


def zone() -> tzinfo:
    """The time zone of this machine, for the batch system's times, which carry no zone."""
    found = datetime.now().astimezone().tzinfo
    assert found is not None  # noqa: S101 - astimezone always gives one
    return found


def _nothing(_: Output) -> None:
    """Parse output that carries no result."""
