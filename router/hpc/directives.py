"""What is asked of the batch system, in each dialect, and which further directives a policy may add.

Pure. A dialect is a table of the extra keys that are allowed and a function from the merged values to lines. Facts
about directives that shaped this: OpenPBS reads them up to the first command; a comment behind one is an error; a
value with blanks must be quoted; there is no expansion in them; walltime=0 kills at once; a size without unit is bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from router.notation import durations
from router.site.allocation import Allocation, Chunk
from router.site.schema import System
from router.values import unchanging

_UNSAFE: Final = re.compile(r"[^\x20-\x7e]|[\"'\\`]")
_RESOURCE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KIB: Final = 1024
_MIB: Final = 1024**2

_OURS: Final = frozenset(
    [
        "select",
        "nodes",
        "nodect",
        "walltime",
        "min_walltime",
        "max_walltime",
        "soft_walltime",
        "ncpus",
        "mem",
        "pmem",
        "vmem",
        "mpiprocs",
        "ompthreads",
        "ngpus",
        "gpus",
        "ppn",
        "place",
        "procs",
    ]
)
_OPENPBS: Final = {"place": "-l place", "group_list": "-W group_list", "priority": "-p"}
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
"""Resources of hosts: qsub exits with 5 where they stand beside a select (measured on 23.06.06)."""
_ASKED_BY_NOBODY: Final = frozenset({"cpupercent", "energy", "exec_vnode", "nchunk", "partition", "start_time"})
"""Resources that the server keeps: it answers 155 (measured on the same)."""
_TORQUE: Final = {"group_list": "-W group_list", "reservation": "-W x=FLAGS:ADVRES", "priority": "-p"}
_SLURM: Final = frozenset(
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
_SLURM_FLAGS: Final = frozenset({"contiguous", "exclusive", "spread-job"})
_CHUNK: Final = "chunk."
_NODE: Final = "node."
_GPU_TYPE: Final = "gpu-type"
_JOB_WIDE: Final = "resource."
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,5}")
_NAMED: Final = {",": "a comma"}


def directive_problems(system: System, directives: Mapping[str, str]) -> list[str]:
    """What is wrong with further directives of a site, queue, account or rule; one sentence each.

    ``account`` and ``project`` are judged as well, so that whatever lands in a directive can be checked here.
    """
    problems = []
    for key, value in directives.items():
        if key not in {"account", "project"} and not _is_known(system, key):
            problems.append(f"{key!r} is no directive of {system} that may be added; {_hint(system, key)}")
        elif problem := _job_wide_problem(system, key):
            problems.append(f"{key}: {problem}")
        if problem := text_problem(value):
            problems.append(f"{key}: {problem}")
        elif system is System.OPENPBS and key == "project" and "/" in value:
            problems.append(f"{key}: {value!r} has a slash, which OpenPBS refuses in a project")
        elif key not in {"account", "project"} and " " in value and system is not System.SLURM:
            problems.append(f"{key}: {value!r} has a blank, which PBS refuses there")
        elif not value and key not in _SLURM_FLAGS:
            problems.append(f"{key}: has no value")
        elif problem := _value_problem(system, key, value):
            problems.append(f"{key}: {problem}")
    return problems


def _job_wide_problem(system: System, key: str) -> str | None:
    """Why OpenPBS refuses a resource for a whole job whose chunks are selected, as one clause."""
    if system is not System.OPENPBS or key in _OPENPBS or key.startswith(_CHUNK):
        return None
    name = key.removeprefix(_JOB_WIDE)
    if name.lower() in _OF_CHUNKS:
        return f"OpenPBS takes it in chunks alone; write {_CHUNK}{name}"
    return "OpenPBS lets nobody ask for it" if name.lower() in _ASKED_BY_NOBODY else None


def _value_problem(system: System, key: str, value: str) -> str | None:
    """Why a value would be more than a value, as one clause: quoting it would help on none of the batch systems."""
    if key == "priority" and system is not System.SLURM:
        return None if _NUMBER.fullmatch(value) else f"{value!r} is no whole number"
    for sign in _separators(system, key):
        if sign in value:
            return f"{value!r} has {_NAMED.get(sign, repr(sign))}, which would begin something else there"
    return None


def _separators(system: System, key: str) -> str:
    """The characters that end a value of that directive. A list of resources goes on behind a comma, a select after + and :"""
    if system is System.SLURM:
        return ",:=" if key == _GPU_TYPE else ""
    if key in {"account", "project"}:
        return ""
    if key.startswith(_CHUNK):
        return ",+:"
    if key.startswith(_NODE):
        return ",+:=#"
    return ",;:" if system is System.TORQUE and key == "reservation" else ","


def text_problem(value: str) -> str | None:
    """Why a text can be no part of a directive, as one clause; None where it can."""
    if found := _UNSAFE.search(value):
        what = "a quote or backslash" if found.group() in "\"'\\`" else "a control or non-ASCII character"
        return f"{value!r} has {what}, which batch systems refuse or change"
    return None


def _is_known(system: System, key: str) -> bool:
    """Whether a directive may be added. Names of resources mean the same in upper case."""
    if system is System.SLURM:
        return key in _SLURM or key == _GPU_TYPE
    table = _TORQUE if system is System.TORQUE else _OPENPBS
    if key in table:
        return True
    prefix = _NODE if system is System.TORQUE else _CHUNK
    name = key.removeprefix(prefix) if key.startswith(prefix) else key.removeprefix(_JOB_WIDE)
    return (
        _RESOURCE.fullmatch(name) is not None
        and name.lower() not in _OURS
        and (key != name or name in _PLAIN_RESOURCES)
    )


_PLAIN_RESOURCES: Final = frozenset(
    [
        "arch",
        "cput",
        "file",
        "filesystems",
        "host",
        "io",
        "licenses",
        "naccesspolicy",
        "nice",
        "partition",
        "qos",
        "software",
        "switches",
    ]
)


def _hint(system: System, key: str) -> str:
    if key.rpartition(".")[2].lower() in _OURS or key in {
        "time",
        "mem",
        "partition",
        "cpus-per-task",
        "ntasks",
        "gres",
    }:
        return "Batchgate writes it from what the Job asks for and the queue"
    if system is System.SLURM:
        return f"allowed are {', '.join(sorted((*_SLURM, _GPU_TYPE)))}"
    table = _TORQUE if system is System.TORQUE else _OPENPBS
    plain = [key for key in _PLAIN_RESOURCES if not _job_wide_problem(system, key)]
    known = ", ".join(sorted((*table, *plain)))
    where = f"{_NODE}NAME (a property of every node)" if system is System.TORQUE else f"{_CHUNK}NAME (in every chunk)"
    return f"allowed are {known}, {_JOB_WIDE}NAME (a resource of the whole job) and {where}"


@unchanging
class Request:
    """What one script asks for: the allocation, and the texts beside it. ``exclusive``: nodes with nobody else."""

    queue: str
    allocation: Allocation
    account: str | None
    project: str | None
    extra: Mapping[str, str]
    exclusive: bool


def asked_by_file(system: System, *, nodes: int) -> bool:
    """Whether the script of a job on so many nodes is asked to end by the file ``end`` (``torque.signal_ends``)."""
    return system is System.TORQUE and nodes > 1


def lines(system: System, request: Request) -> list[str]:
    """The options of a script's directives, in a fixed order, without the dialect's mark before each."""
    return list(_DIALECTS[system](request))


def _openpbs(request: Request) -> Iterator[str]:
    allocation, extra = request.allocation, request.extra
    in_chunk = "".join([f":{key[len(_CHUNK) :]}={value}" for key, value in extra.items() if key.startswith(_CHUNK)])
    yield f"-q {request.queue}"
    yield "-l select=" + "+".join([_chunk(chunk) + in_chunk for chunk in allocation.chunks])
    if place := extra.get("place") or _place(allocation, exclusive=request.exclusive):
        yield f"-l place={place}"
    yield f"-l walltime={_clock(allocation.walltime)}"
    yield from _named(request, "-A", "-P")
    yield from _resources(extra, _OPENPBS, skip="place")


def _chunk(chunk: Chunk) -> str:
    memory = f":mem={size(chunk.memory)}" if chunk.memory else ""
    gpus = f":ngpus={chunk.gpus}" if chunk.gpus else ""
    return f"{chunk.count}:ncpus={chunk.ncpus}:mpiprocs={chunk.ranks}:ompthreads={chunk.ompthreads}{memory}{gpus}"


def _place(allocation: Allocation, *, exclusive: bool) -> str:
    spread = "scatter" if allocation.nodes > 1 else "pack"
    if exclusive:
        return f"{spread}:excl"
    return spread if allocation.nodes > 1 else ""


def _torque(request: Request) -> Iterator[str]:
    allocation, extra = request.allocation, request.extra
    features = "".join([f":{value}" for key, value in extra.items() if key.startswith(_NODE)])
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
    yield f"-l walltime={_clock(allocation.walltime)}"
    yield from _named(request, "-A", "")  # -P names a proxy user there, never a project
    yield from _resources(extra, _TORQUE)


def _named(request: Request, account: str, project: str) -> Iterator[str]:
    if request.account:
        yield f"{account} {_quoted(request.account)}"
    if request.project and project:
        yield f"{project} {_quoted(request.project)}"


def _resources(extra: Mapping[str, str], table: Mapping[str, str], skip: str = "") -> Iterator[str]:
    for key, value in extra.items():
        if key == skip or key.startswith((_CHUNK, _NODE)):
            continue
        option = table.get(key)
        if option is None:
            yield f"-l {key.removeprefix(_JOB_WIDE)}={value}"
        elif option.startswith(("-l", "-W")):
            yield f"{option}{':' if option.endswith('ADVRES') else '='}{value}"
        else:
            yield f"{option} {value}"


def _slurm(request: Request) -> Iterator[str]:
    allocation, extra = request.allocation, request.extra
    chunks = allocation.chunks
    gpus = max(chunk.gpus for chunk in chunks)
    yield f"--partition={request.queue}"
    yield f"--nodes={allocation.nodes}"
    yield f"--ntasks={sum(chunk.count * chunk.ranks for chunk in chunks)}"
    yield f"--ntasks-per-node={max(chunk.ranks for chunk in chunks)}"
    yield f"--cpus-per-task={allocation.cores_per_rank}"
    if memory := _slurm_memory(chunks):
        yield memory
    if gpus:
        kind = extra.get(_GPU_TYPE)
        yield f"--gres=gpu:{f'{kind}:' if kind else ''}{gpus}"
    if request.exclusive and "exclusive" not in extra:
        yield "--exclusive"
    yield f"--time={_clock(allocation.walltime)}"
    yield f"--signal=B:USR1@{_warning(allocation)}"
    if request.account:
        yield f"--account={_quoted(request.account)}"
    if request.project:
        yield f"--wckey={_quoted(request.project)}"
    for key, value in extra.items():
        if key != _GPU_TYPE:
            yield f"--{key}={_quoted(value)}" if value else f"--{key}"


def _slurm_memory(chunks: tuple[Chunk, ...]) -> str:
    if chunks[0].memory is None:
        return ""
    if len(chunks) == 1 and chunks[0].ranks == 1:
        return f"--mem={-(-chunks[0].memory // _MIB)}M"
    most = max(-(-(chunk.memory or 0) // chunk.ncpus) for chunk in chunks)
    return f"--mem-per-cpu={-(-most // _MIB)}M"


def _warning(allocation: Allocation) -> int:
    """Seconds before the end at which Slurm signals the script: a backstop, after the deadline where there is room."""
    spare = allocation.walltime - allocation.deadline - allocation.grace
    return max(1, min(65535, allocation.grace + min(60, spare)))


def size(count: int) -> str:
    """Bytes as PBS reads them: the largest unit that is exact, kilobytes rounded up."""
    kib = -(-count // _KIB)
    for unit in ("kb", "mb"):
        if kib % _KIB:
            return f"{kib}{unit}"
        kib //= _KIB
    return f"{kib}gb"


def _clock(seconds: int) -> str:
    # 0 would be killed at once by OpenPBS and mean "no limit" to Slurm.
    return durations.hms(max(1, seconds))


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text or not text else text


_DIALECTS: Final[Mapping[System, Callable[[Request], Iterator[str]]]] = {
    System.OPENPBS: _openpbs,
    System.LOCAL: _openpbs,
    System.TORQUE: _torque,
    System.SLURM: _slurm,
}
