"""Asks other servers about jobs that were moved to them, with one question for each server.

Shell.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from router.agent.batch import answers as telling
from router.agent.batch.answers import JobAnswers
from router.agent.batch.commands import BatchCommands
from router.errors import BatchError
from router.hpc import Commands, JobReport, JobState, NoHistory

log: Final = logging.getLogger("batchgate")

AWAY_SECONDS: Final = 60.0
"""How long another server that has some of our jobs is left alone after a question to it failed."""

_SERVER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}(?::[0-9]{1,5})?")


def follow_moved(batch: BatchCommands, told: JobAnswers) -> JobAnswers:
    """``told``, with the jobs that were moved to another server as that server reports them.

    A job that the other server no longer knows is unknown. While the server cannot be asked, its jobs are silent.
    """
    moved: dict[str, list[str]] = {}
    for job_id, report in told.reports.items():
        server = report.queue.partition("@")[2]
        if report.state is JobState.MOVED and _SERVER.fullmatch(server):
            moved.setdefault(server, []).append(job_id)
    for server, job_ids in moved.items():
        told = telling.followed(told, server, job_ids, _there(batch, server, job_ids))
    return told


def _there(batch: BatchCommands, server: str, job_ids: Sequence[str]) -> JobAnswers | None:
    """The answer of another server about these jobs; None if the server is silent now."""
    if batch.remembered.is_away(server, time.monotonic()):
        return None
    words, commands = [f"{job_id}@{server}" for job_id in job_ids], batch.present()
    try:
        try:
            found, named = _asked(batch, words, commands)
        except NoHistory:  # the other server keeps none, even if our own does
            found, named = _asked(batch, words, replace(commands, history=False))
    except BatchError as error:
        batch.remembered.away(server, time.monotonic() + AWAY_SECONDS)
        fields = {"server": server, "error": str(error)[:2000]}
        log.warning("a server that jobs were moved to cannot be asked", extra={"fields": fields})
        return None
    same = {job_id: job_id for job_id in job_ids}
    return JobAnswers(found, telling.unknown_of(same, found, named))


def _asked(
    batch: BatchCommands, words: Sequence[str], commands: Commands
) -> tuple[dict[str, JobReport], frozenset[str]]:
    return batch.ask("details", batch.system.details_argv(words, commands), batch.read_details)
