"""The batch system's commands as one site has them: run, judged, counted.

Shell. Every command has a time limit; every failure is a BatchError, as the batch system's module judges it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Final, TypeVar

from router.agent.metrics import Metrics, Stopwatch
from router.errors import BatchError, Full, OutputError, Refused, Unavailable
from router.host import Host
from router.hpc import BatchSystem, Commands, JobReport, JobState, QueueState, Submission

T = TypeVar("T")

MOST_IDS: Final = 2000
"""Ids of one details question: about 40 kB of arguments and 3 MB of answer."""

_OUTCOMES: Final = ((Full, "full"), (Refused, "refused"), (OutputError, "not understood"), (Unavailable, "unavailable"))


class Batch:
    """One site's batch system, asked and told as one user.

    :param user: whose jobs are listed
    :param seconds: for each command
    """

    def __init__(
        self, host: Host, system: BatchSystem, commands: Commands, *, user: str, seconds: float, metrics: Metrics
    ) -> None:
        self.user = user
        self.name_limit = system.NAME_LIMIT
        self._host = host
        self._system = system
        self._commands = commands
        self._seconds = seconds
        self.metrics = metrics
        self._log = logging.getLogger("batchgate")

    def submit(self, submission: Submission) -> str:
        """The new job's id. Refused, Full, Unavailable (the job may exist all the same), OutputError (so may it)."""
        argv = self._system.submit_argv(submission, self._commands)
        return self._counted("submit", lambda: self._system.job_id(self._run(argv)))

    def find(self, name: str) -> tuple[str, ...]:
        """Ids of the jobs of exactly that name, also finished ones, oldest first."""
        argv = self._system.list_argv(name=name, commands=self._commands)
        return self._counted("find", lambda: self._system.parse_list(self._run(argv)))

    def states(self) -> dict[str, JobState]:
        """States of our jobs that are not over, by id (which a table may have cut: it then ends in ``*``)."""
        argv = self._system.states_argv(self.user, self._commands)
        return self._counted("list", lambda: self._system.parse_states(self._run(argv)))

    def details(self, job_ids: Sequence[str]) -> dict[str, JobReport]:
        """Reports of these jobs; one that is not among them is not known to the server. At most ``MOST_IDS``."""
        argv = self._system.details_argv(job_ids, self._commands)
        return self._counted("details", lambda: self._system.parse_details(self._run(argv), zone=_zone()))

    def queues(self) -> dict[str, QueueState]:
        """How the queues and their nodes are, by the queue's name; nothing where the batch system cannot be asked so."""
        argvs = self._system.queues_argvs(self._commands)
        if not argvs:
            return {}
        return self._counted("queues", lambda: self._system.parse_queues([self._run(argv) for argv in argvs]))

    def cancel(self, job_ids: Sequence[str], *, force: bool = False) -> None:
        """End these jobs, queued or running; by force also those that are ending already, or whose node is away."""
        argv = self._system.cancel_argv(job_ids, self._commands, force=force)
        self._counted("cancel", lambda: self._run(argv))

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
            self.metrics.commands.labels(kind, outcome).inc()
            self.metrics.command_seconds.labels(kind).observe(watch.seconds)


def _zone() -> tzinfo:
    """The zone of this machine, as the batch system's own times carry none."""
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None  # noqa: S101 - astimezone always gives one
    return zone
