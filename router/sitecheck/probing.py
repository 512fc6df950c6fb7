"""One probe job: submits it, watches what it writes, deletes it and removes its traces.

Shell (a clock). It watches until all files of the probe are seen, or for so long that missing files count as lost.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.errors import BatchError, BatchgateError
from router.host import Host
from router.hpc import BatchSystem, Commands, JobReport, JobState, NoHistory, Submission
from router.preflight import probe
from router.preflight.jobs import Killed, Shown
from router.preflight.seen import (
    Report,
    Sample,
    attribute_of,
    names_delay,
    report_of,
    sizes_delay,
    stamps_of,
)

_PAUSE: Final = 0.5
_ASKING: Final = 2.0
"""Seconds between two queries about a job."""
_ENDING: Final = 180.0
"""Seconds within which a deleted job must end."""
_RECORDS: Final = 30.0
"""Seconds within which the records of finished jobs must show a job that has ended."""
_SPARE: Final = 240.0
"""Seconds beyond the file system's delay that a probe's notes may take, as it starts an image first."""
_NOT_YET: Final = frozenset({JobState.QUEUED, JobState.HELD, JobState.MOVED})


class Stopped(BatchgateError):
    """The check was interrupted."""


@dataclass(frozen=True, slots=True)
class Ways:
    """The host and batch system as a probe's user. ``seconds``: for one command."""

    host: Host
    batch: BatchCommands
    system: BatchSystem
    commands: Commands
    seconds: float
    stopping: threading.Event

    @property
    def jobs(self) -> BatchJobs:
        """How the user asks about jobs."""
        return BatchJobs(self.batch)


@dataclass(frozen=True, slots=True)
class Followed:
    """The observations of a probe. ``ended``: how the job ended, in words; empty while it runs."""

    report: Report | None
    samples: tuple[Sample, ...]
    names: frozenset[str]
    stamps: tuple[float, ...]
    complete: bool
    ended: str

    def delays(self, skew: float) -> tuple[float, float]:
        """The delays of names and of sizes, in seconds; ``skew`` is how far the node's clock is ahead."""
        samples = [Sample(one.at + skew, one.names, one.size) for one in self.samples]
        return names_delay(samples, self.names), sizes_delay(samples, self.stamps)


class Probe:
    """One probe job.

    :param delay: seconds for which the file system may hide files written on nodes
    :param wait: seconds that the job may stay queued
    """

    def __init__(self, ways: Ways, submission: Submission, *, delay: float, wait: float) -> None:
        self.job_id = ""
        self.reason = ""
        self._ways = ways
        self._submission = submission
        self._directory = PurePosixPath(submission.directory)
        self._delay = delay
        self._wait = wait
        self._tried = False
        self._ended: JobReport | None = None
        self._asked = 0.0

    def submit(self) -> None:
        """Submit the job. Raises BatchError if the batch system refuses it."""
        self._tried = True
        self.job_id = self._ways.batch.submit(self._submission).job_id

    def started(self) -> bool:
        """Wait until the job has started or is over; False if it stays queued."""
        until = time.monotonic() + self._wait
        while (report := self._state()) is not None and report.state in _NOT_YET:
            self.reason = report.reason
            if time.monotonic() > until:
                return False
            self._pause(_ASKING)
        return True

    def shown(self) -> Shown:
        """The job as the batch system shows it."""
        ways = self._ways
        found = self.job_id in ways.batch.find(self._submission.name)
        report = ways.jobs.ask([self.job_id]).reports.get(self.job_id)
        details = self._details()
        account, project = (attribute_of(details, name) for name in ("Account_Name", "project"))
        return Shown(self._submission.name, found, report.name if report else "", account, project)

    def watched(self, *, grows: bool = True) -> Followed:
        """Watch until all files of the job are seen, or for too long.

        :param grows: whether the job writes names and a growing file
        """
        host, directory = self._ways.host, self._directory
        offset = host.clock() - time.time()
        patience = probe.BEATS + 2 * self._delay + _SPARE
        samples: list[Sample] = []
        report, until = None, time.monotonic() + patience
        while True:
            samples.append(self._sample(offset))
            if report is None and probe.REPORT in host.names(directory):
                report = report_of(host.read(directory / probe.REPORT))
            all_seen = not grows or (
                len(samples[-1].names) >= probe.BEATS and samples[-1].size >= probe.BEATS * probe.LINE_BYTES
            )
            if (report is not None and all_seen) or time.monotonic() > until:
                break
            if self._over() and report is None:
                # An ended job's files may appear late, but at most by the file system's delay.
                until = min(until, time.monotonic() + self._delay + 1)
            self._pause(_PAUSE)
        stamps = stamps_of(host.read(directory / probe.GROWS))
        complete = report is not None and all_seen
        return Followed(report, tuple(samples), samples[-1].names, stamps, complete, self._end())

    def killed(self, delay: float) -> Killed:
        """Delete the job, and see how it ends. ``delay``: how late its files are seen, in seconds."""
        ways, directory = self._ways, self._directory
        ways.batch.cancel([self.job_id])
        ended = self._await_end(_ENDING)
        # Read the files only after the end: a file that is first seen then has its final content.
        until = time.monotonic() + 2 * delay + 5
        while probe.TERM not in (names := ways.host.names(directory)) and time.monotonic() < until:
            self._pause(_PAUSE)
        term, beats = (self._stamps(name) if name in names else () for name in (probe.TERM, probe.KILLED))
        return Killed(ended, term, beats)

    def known_after_end(self) -> bool | None:
        """Whether the records of finished jobs show the job; None without such records."""
        ways, until = self._ways, time.monotonic() + _RECORDS
        argv = ways.system.past_argv([self.job_id], ways.commands)
        argv = argv or ways.system.details_argv([self.job_id], ways.commands)
        self._await_end(_ENDING)
        while True:
            try:
                found = ways.system.parse_details(self._run(argv))
            except NoHistory:
                return None
            if self.job_id in found and found[self.job_id].state is JobState.FINISHED:
                return True
            if time.monotonic() > until:
                return False
            self._pause(_ASKING)

    def left_by_ranks(self, count: int) -> tuple[str, ...]:
        """The hosts whose files are seen; waits until there are ``count``, at most for the file system's delay."""
        until = time.monotonic() + self._delay + 1
        while True:
            prefix = f"{probe.RANK}."
            hosts = sorted(
                name.removeprefix(prefix) for name in self._ways.host.names(self._directory) if name.startswith(prefix)
            )
            if len(hosts) >= count or time.monotonic() > until:
                return tuple(hosts)
            self._pause(_PAUSE)

    def remove(self) -> str:
        """End the job, even if its id is unknown; returns the error, or empty."""
        if not self._tried or self._ended is not None:
            return ""
        ways = self._ways
        try:
            job_ids = [self.job_id] if self.job_id else list(ways.batch.find(self._submission.name))
            ways.batch.cancel(job_ids)
            until = time.monotonic() + 60
            while job_ids and self.job_id and not self._over() and time.monotonic() < until:
                time.sleep(_PAUSE)
        except BatchError as error:
            return f"job {self.job_id or self._submission.name}: {error}"
        return ""

    def _sample(self, offset: float) -> Sample:
        host, at = self._ways.host, time.time() + offset
        names = frozenset(host.names(self._directory / probe.NAMES))
        return Sample(at, names, host.size(self._directory / probe.GROWS) or 0)

    def _stamps(self, name: str) -> tuple[float, ...]:
        with contextlib.suppress(FileNotFoundError):
            return stamps_of(self._ways.host.read(self._directory / name))
        return ()

    def _state(self) -> JobReport | None:
        """The job's report; None once the batch system has forgotten the job."""
        report = self._ways.jobs.ask([self.job_id]).reports.get(self.job_id)
        if report is None or report.state is JobState.FINISHED:
            self._ended = report or JobReport(self.job_id, JobState.FINISHED, "")
        return report

    def _details(self) -> str:
        """All that the batch system prints about the job, also if it keeps no records of finished jobs."""
        ways = self._ways
        try:
            return self._run(ways.system.details_argv([self.job_id], ways.commands))
        except NoHistory:
            return self._run(ways.system.details_argv([self.job_id], replace(ways.commands, history=False)))

    def _over(self) -> bool:
        if self._ended is None and time.monotonic() - self._asked > _ASKING:
            self._asked = time.monotonic()
            self._state()
        return self._ended is not None

    def _await_end(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._over():
            if time.monotonic() > until:
                return False
            self._pause(_PAUSE)
        return True

    def _end(self) -> str:
        if self._ended is None:
            return ""
        report = self._ended
        return f"job {self.job_id} ended, exit status {report.exit_status}{report.reason and ', '}{report.reason}"

    def _run(self, argv: tuple[str, ...]) -> str:
        done = self._ways.host.run(argv, self._ways.seconds)
        if failure := self._ways.system.failure(argv, done.returncode, done.stderr.decode(errors="replace")):
            raise failure
        return done.stdout.decode(errors="surrogateescape")

    def _pause(self, seconds: float) -> None:
        if self._ways.stopping.wait(seconds):
            raise Stopped("the check was interrupted")
