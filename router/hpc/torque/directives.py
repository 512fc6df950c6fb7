"""TORQUE's directives: what a script asks for, and what a policy may add.

Pure. TORQUE's ``-P`` names a proxy user, never a project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.hpc import pbs
from router.hpc.pbs import ACCOUNTS, CHUNK, JOB_WIDE, MARK, NODE, entry_lines
from router.hpc.requests import Request, clock, size

__all__ = ["MARK", "allowed", "directives", "entry_lines", "is_directive", "key_problem", "value_problem"]

_TABLE: Final = {"group_list": "-W group_list", "reservation": "-W x=FLAGS:ADVRES", "priority": "-p"}


def is_directive(key: str) -> bool:
    """Whether a policy may add this directive."""
    return pbs.is_directive(key, _TABLE, NODE)


def allowed() -> str:
    """The directives that a policy may add, as text for an error message."""
    known = ", ".join(sorted((*_TABLE, *pbs.PLAIN_RESOURCES)))
    return f"{known}, {JOB_WIDE}NAME (a resource of the whole job) and {NODE}NAME (a property of every node)"


def key_problem(key: str) -> str | None:  # noqa: ARG001 - OpenPBS refuses some
    """None: TORQUE takes a resource beside any request for nodes."""
    return None


def value_problem(key: str, value: str) -> str | None:
    """Why a value would be read as more than a value, as one clause."""
    if key in ACCOUNTS:
        separators = ""
    elif key.startswith(CHUNK):
        separators = ",+:"
    elif key.startswith(NODE):
        separators = ",+:=#"
    else:
        separators = ",;:" if key == "reservation" else ","
    return pbs.value_problem(key, value, separators)


def directives(request: Request) -> Iterator[str]:
    """The options of a script's directives, in a fixed order."""
    allocation, extra = request.allocation, request.extra
    features = "".join([f":{value}" for key, value in extra.items() if key.startswith(NODE)])
    yield f"-q {request.queue}"
    yield "-l nodes=" + "+".join(
        [
            f"{chunk.count}:ppn={chunk.ncpus}{f':gpus={chunk.gpus}' if chunk.gpus else ''}{features}"
            for chunk in allocation.chunks
        ]
    )
    memory = [chunk.count * chunk.memory for chunk in allocation.chunks if chunk.memory]
    if memory:
        yield f"-l mem={size(sum(memory))}"
    if request.exclusive and "naccesspolicy" not in extra:
        yield "-l naccesspolicy=singlejob"
    yield f"-l walltime={clock(allocation.walltime)}"
    yield from pbs.named(request, "-A", "")
    yield from pbs.resources(extra, _TABLE)
