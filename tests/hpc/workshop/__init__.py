"""A batch system that nobody has: OpenPBS' words behind ``batchgate local``, whole hours, and marks of its own.

It is what somebody writes who adds one: a package that offers what ``router.hpc.BatchSystem`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.hpc import Advice, Traits
from router.hpc.local import (
    DEFAULT,
    LISTS_ALL,
    NAME_LIMIT,
    STATES,
    cancel_argv,
    details_argv,
    failure,
    is_id,
    job_id,
    list_argv,
    naming_argv,
    over_ssh,
    parse_details,
    parse_list,
    parse_listed,
    parse_queues,
    parse_states,
    past_argv,
    proof_argv,
    queues_argvs,
    signal_argv,
    signal_ends,
    states_argv,
    submit_argv,
    unknown_ids,
    within_argv,
)
from router.hpc.requests import Request, clock

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

MARK: Final = "#PBS"
TRAITS: Final = Traits(walltime_step=3600, memory_floor=64 * 1024**2, embedded=True)
ADVICE: Final = Advice(version=("qstat", "--version"), history="turn the ledger's page")


def directives(request: Request) -> Iterator[str]:
    """Queue, nodes, walltime; ``bench`` is a workbench."""
    yield f"-q {request.queue}"
    yield f"-l select={request.allocation.nodes}:ncpus={request.allocation.chunks[0].ncpus}"
    yield f"-l walltime={clock(request.allocation.walltime)}"
    if bench := request.extra.get("bench"):
        yield f"-l software={bench}"


def entry_lines(cores_per_rank: int) -> tuple[str, ...]:
    """As on OpenPBS."""
    return (f"# {cores_per_rank} at a workbench",)


def is_directive(key: str) -> bool:
    """Workbenches alone may be chosen."""
    return key == "bench"


def allowed() -> str:
    """All that may be."""
    return "bench"


def key_problem(key: str) -> str | None:
    """Nothing is wrong with a workbench."""
    return None if key == "bench" else f"a workshop has no {key}"


def value_problem(key: str, value: str) -> str | None:
    """Workbenches have numbers."""
    return None if value.isdigit() or key != "bench" else f"{value!r} is no number"
