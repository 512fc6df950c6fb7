"""Slurm's directives: what a script asks for, and what a policy may add.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.hpc.requests import Allocation, Chunk, Request, clock, quoted

__all__ = ["MARK", "allowed", "directives", "entry_lines", "is_directive", "key_problem", "value_problem"]

MARK: Final = "#SBATCH"
_MIB: Final = 1024**2
_KNOWN: Final = frozenset(
    [
        "bb",
        "comment",
        "constraint",
        "contiguous",
        "core-spec",
        "cpu-freq",
        "distribution",
        "exclude",
        "exclusive",
        "gpu-bind",
        "gpu-freq",
        "hint",
        "licenses",
        "mail-type",
        "mail-user",
        "mem-bind",
        "network",
        "nice",
        "nodelist",
        "ntasks-per-core",
        "ntasks-per-socket",
        "power",
        "priority",
        "profile",
        "qos",
        "reservation",
        "sockets-per-node",
        "spread-job",
        "switches",
        "threads-per-core",
        "tmp",
        "wckey",
    ]
)
_FLAGS: Final = frozenset({"contiguous", "exclusive", "spread-job"})
_GPU_TYPE: Final = "gpu-type"
_GRES: Final = "gres"
"""Only what the policy's resources make of a Job's: router.site.resources."""


def entry_lines(cores_per_rank: int) -> tuple[str, ...]:
    """The script's lines about the Pod's directory, and the variables that its steps (srun) need."""
    return (
        "# $1: the Pod's directory. --export=NONE must not reach srun.",
        f"export SLURM_EXPORT_ENV=ALL SRUN_CPUS_PER_TASK={cores_per_rank}",
    )


def is_directive(key: str) -> bool:
    """Whether a policy may add this directive."""
    return key in _KNOWN or key == _GPU_TYPE


def allowed() -> str:
    """The directives that a policy may add, as text for an error message."""
    return ", ".join(sorted((*_KNOWN, _GPU_TYPE)))


def key_problem(key: str) -> str | None:  # noqa: ARG001 - OpenPBS refuses some
    """None: Slurm takes every directive that ``is_directive`` allows."""
    return None


def value_problem(key: str, value: str) -> str | None:
    """Why a value would be read as more than a value, as one clause; quotes would not help."""
    if not value and key not in _FLAGS:
        return "has no value"
    found = next((sign for sign in ",:=" if key == _GPU_TYPE and sign in value), None)
    shown = "a comma" if found == "," else repr(found)
    return f"{value!r} has {shown}, which would begin something else there" if found else None


def directives(request: Request) -> Iterator[str]:
    """The options of a script's directives, in a fixed order."""
    allocation, extra = request.allocation, request.extra
    chunks = allocation.chunks
    gpus = max(chunk.gpus for chunk in chunks)
    yield f"--partition={request.queue}"
    yield f"--nodes={allocation.nodes}"
    yield f"--ntasks={sum(chunk.count * chunk.ranks for chunk in chunks)}"
    yield f"--ntasks-per-node={max(chunk.ranks for chunk in chunks)}"
    yield f"--cpus-per-task={allocation.cores_per_rank}"
    if memory := _memory(chunks):
        yield memory
    kind = extra.get(_GPU_TYPE)
    gres = [f"gpu:{f'{kind}:' if kind else ''}{gpus}"] if gpus else []
    if gres := [*gres, *([extra[_GRES]] if _GRES in extra else [])]:
        yield f"--gres={','.join(gres)}"
    if request.exclusive and "exclusive" not in extra:
        yield "--exclusive"
    yield f"--time={clock(allocation.walltime)}"
    yield f"--signal=B:USR1@{_warning(allocation)}"
    if request.account:
        yield f"--account={quoted(request.account)}"
    if request.project:
        yield f"--wckey={quoted(request.project)}"
    for key, value in extra.items():
        if key not in (_GPU_TYPE, _GRES):
            yield f"--{key}={quoted(value)}" if value else f"--{key}"


def _memory(chunks: tuple[Chunk, ...]) -> str:
    if chunks[0].memory is None:
        return ""
    if len(chunks) == 1 and chunks[0].ranks == 1:
        return f"--mem={-(-chunks[0].memory // _MIB)}M"
    most = max(-(-(chunk.memory or 0) // chunk.ncpus) for chunk in chunks)
    return f"--mem-per-cpu={-(-most // _MIB)}M"


def _warning(allocation: Allocation) -> int:
    """Seconds before the end at which Slurm signals the script: a backstop, if possible after the deadline."""
    spare = allocation.walltime - allocation.deadline - allocation.grace
    return max(1, min(65535, allocation.grace + min(60, spare)))
