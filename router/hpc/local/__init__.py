"""The embedded queue: OpenPBS' words behind ``batchgate local``.

Pure. The embedded queue answers as OpenPBS does, so this module takes all but the commands from ``router.hpc.openpbs``.
Its times are local times of the agent's machine, on which it runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Final

from router.errors import OutputError
from router.hpc import Advice, Commands, JobReport, QueueReport, Submission, Traits, openpbs
from router.hpc.openpbs import (
    LISTS_ALL,
    MARK,
    NAME_LIMIT,
    STATES,
    allowed,
    directives,
    entry_lines,
    failure,
    is_directive,
    is_id,
    job_id,
    key_problem,
    parse_list,
    parse_listed,
    parse_states,
    proof_argv,
    signal_ends,
    unknown_ids,
    value_problem,
)
from router.hpc.openpbs.commands import details_words
from router.hpc.openpbs.records import reports

__all__ = [
    "ADVICE",
    "DEFAULT",
    "LISTS_ALL",
    "MARK",
    "NAME_LIMIT",
    "STATES",
    "TRAITS",
    "allowed",
    "cancel_argv",
    "commands_of",
    "details_argv",
    "directives",
    "entry_lines",
    "failure",
    "is_directive",
    "is_id",
    "job_id",
    "key_problem",
    "list_argv",
    "naming_argv",
    "over_ssh",
    "parse_details",
    "parse_list",
    "parse_listed",
    "parse_queues",
    "parse_states",
    "past_argv",
    "proof_argv",
    "queues_argvs",
    "signal_argv",
    "signal_ends",
    "states_argv",
    "submit_argv",
    "unknown_ids",
    "value_problem",
    "within_argv",
]

STATE_VARIABLE: Final = "BATCHGATE_LOCAL"
"""Names the directory of the embedded queue."""

DEFAULT: Final = Commands(
    environment=(("PATH", "/usr/local/bin:/usr/bin:/bin"),),
    prefix=("batchgate", "local"),
)


TRAITS: Final = Traits(shows_projects=True, embedded=True)
ADVICE: Final = Advice(version=("qstat", "--version"))


def commands_of(directory: str, prefix: Sequence[str] = DEFAULT.prefix) -> Commands:
    """Commands that reach the embedded queue of that directory.

    ``prefix`` may name the program by its path: (sys.executable, "-m", "router.local") starts fastest.
    """
    return Commands(environment=(*DEFAULT.environment, (STATE_VARIABLE, directory)), prefix=tuple(prefix))


def submit_argv(submission: Submission, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """See ``router.hpc.openpbs``."""
    return openpbs.submit_argv(submission, commands)


def list_argv(*, user: str = "", name: str = "", commands: Commands = DEFAULT) -> tuple[str, ...]:
    """See ``router.hpc.openpbs``."""
    return openpbs.list_argv(user=user, name=name, commands=commands)


def states_argv(users: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """See ``router.hpc.openpbs``."""
    return openpbs.states_argv(users, commands)


def details_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """See ``router.hpc.openpbs``; no ``TZ`` is set, as the embedded queue's daemon writes the times."""
    return commands.argv(*details_words(job_ids, commands))


def naming_argv(
    asked: Sequence[str],  # noqa: ARG001
    left_out: Sequence[str],  # noqa: ARG001
    commands: Commands = DEFAULT,  # noqa: ARG001
) -> tuple[str, ...] | None:
    """None: ``qstat`` names the ids that it does not know."""
    return None


def past_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:  # noqa: ARG001
    """None: ``qstat -x`` already shows finished jobs."""
    return None


def parse_details(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
    """Reports by id; ``zone`` is this machine's. OutputError."""
    return reports(stdout, zone)


def cancel_argv(job_id: str, commands: Commands = DEFAULT, *, force: bool = False) -> tuple[str, ...]:
    """See ``router.hpc.openpbs``."""
    return openpbs.cancel_argv(job_id, commands, force=force)


def signal_argv(job_id: str, signal: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qsig -s TERM ID``: the script has no parent shell, so it gets TERM itself."""
    return commands.argv("qsig", "-s", signal, job_id)


def within_argv(job_id: str, words: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:  # noqa: ARG001
    """The program itself: jobs of the embedded queue run on this machine."""
    return tuple(words)


def over_ssh(
    job_id: str,  # noqa: ARG001 - as the Protocol has it
    hosts: str,  # noqa: ARG001
    words: Sequence[str],  # noqa: ARG001
    commands: Commands = DEFAULT,  # noqa: ARG001
) -> None:
    """None: jobs of the embedded queue run on this machine."""
    return


def queues_argvs(commands: Commands = DEFAULT) -> tuple[tuple[str, ...], ...]:
    """``batchgate local queues -o json``: the embedded queue has no pbsnodes."""
    return (commands.argv("queues", "-o", "json"),)


def parse_queues(outputs: Sequence[str]) -> dict[str, QueueReport]:
    """Queues by name, with the figures that placement rules may use; limits come from the site's declaration.

    :raises OutputError: the text is not that command's output
    """
    (text,) = outputs
    try:
        return {one["queue"]: _queue(one) for one in json.loads(text)["queues"]}
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise OutputError(("queues",), 0, f"not the state of queues: {error}: {text[:200]!r}") from error


def _queue(found: dict[str, object]) -> QueueReport:
    figures = [found["freeNodes"], found["queuedJobs"], found["runningJobs"]]
    name, up = found["queue"], found["up"]
    if not isinstance(name, str) or not isinstance(up, bool):
        raise TypeError("queue is no text, or up no truth")
    free, queued, running = (_figure(one) for one in figures)
    reason = "" if up else "not enabled, or not started"
    return QueueReport(
        name=name, enabled=up, started=up, reason=reason, free_nodes=free, queued=queued, running=running
    )


def _figure(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no figure")
    return value
