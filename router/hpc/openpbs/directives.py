"""OpenPBS' directives: what a script asks for, and what a policy may add.

Pure. Facts about OpenPBS: it reads directives up to the first command; a comment after a directive is an error; a value
with blanks must be quoted; directives are not expanded; walltime=0 kills at once; a size without a unit is bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.hpc import pbs
from router.hpc.pbs import ACCOUNTS, CHUNK, JOB_WIDE, MARK, entry_lines
from router.hpc.requests import Allocation, Chunk, Request, clock, size

__all__ = ["MARK", "allowed", "directives", "entry_lines", "is_directive", "key_problem", "value_problem"]

_TABLE: Final = {"place": "-l place", "group_list": "-W group_list", "priority": "-p"}
_OF_CHUNKS: Final = frozenset(
    [
        "accelerator",
        "accelerator_group",
        "accelerator_memory",
        "accelerator_model",
        "aoe",
        "arch",
        "eoe",
        "hbmem",
        "host",
        "naccelerators",
        "vnode",
        "vntype",
    ]
)
"""Resources of hosts: qsub exits with 5 if one is given beside a select (measured on 23.06.06)."""
_ASKED_BY_NOBODY: Final = frozenset({"cpupercent", "energy", "exec_vnode", "nchunk", "partition", "start_time"})
"""Resources that only the server sets: a request for one fails with 155 (measured on 23.06.06)."""


def is_directive(key: str) -> bool:
    """Whether a policy may add this directive."""
    return pbs.is_directive(key, _TABLE, CHUNK)


def allowed() -> str:
    """The directives that a policy may add, as text for an error message."""
    plain = [key for key in pbs.PLAIN_RESOURCES if not key_problem(key)]
    known = ", ".join(sorted((*_TABLE, *plain)))
    return f"{known}, {JOB_WIDE}NAME (a resource of the whole job) and {CHUNK}NAME (in every chunk)"


def key_problem(key: str) -> str | None:
    """Why OpenPBS refuses a job-wide resource beside ``select``, as one clause."""
    if key in _TABLE or key.startswith(CHUNK):
        return None
    name = key.removeprefix(JOB_WIDE)
    if name.lower() in _OF_CHUNKS:
        return f"OpenPBS takes it in chunks alone; write {CHUNK}{name}"
    return "OpenPBS refuses requests for it" if name.lower() in _ASKED_BY_NOBODY else None


def value_problem(key: str, value: str) -> str | None:
    """Why a value would be read as more than a value. A comma ends it; in a select, ``+`` and ``:`` do too."""
    if key == "project" and "/" in value:
        return f"{value!r} has a slash, which OpenPBS refuses in a project"
    separators = "" if key in ACCOUNTS else ",+:" if key.startswith(CHUNK) else ","
    return pbs.value_problem(key, value, separators)


def directives(request: Request) -> Iterator[str]:
    """The options of a script's directives, in a fixed order."""
    allocation, extra = request.allocation, request.extra
    in_chunk = "".join([f":{key[len(CHUNK) :]}={value}" for key, value in extra.items() if key.startswith(CHUNK)])
    yield f"-q {request.queue}"
    yield "-l select=" + "+".join([_chunk(chunk) + in_chunk for chunk in allocation.chunks])
    if place := extra.get("place") or _place(allocation, exclusive=request.exclusive):
        yield f"-l place={place}"
    yield f"-l walltime={clock(allocation.walltime)}"
    yield from pbs.named(request, "-A", "-P")
    yield from pbs.resources(extra, _TABLE, skip="place")


def _chunk(chunk: Chunk) -> str:
    memory = f":mem={size(chunk.memory)}" if chunk.memory else ""
    gpus = f":ngpus={chunk.gpus}" if chunk.gpus else ""
    return f"{chunk.count}:ncpus={chunk.ncpus}:mpiprocs={chunk.ranks}:ompthreads={chunk.ompthreads}{memory}{gpus}"


def _place(allocation: Allocation, *, exclusive: bool) -> str:
    spread = "scatter" if allocation.nodes > 1 else "pack"
    if exclusive:
        return f"{spread}:excl"
    return spread if allocation.nodes > 1 else ""
