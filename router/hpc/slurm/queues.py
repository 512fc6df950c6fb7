"""Parses Slurm's partitions, nodes and jobs (scontrol, squeue) into the state of queues.

Pure. A CPU of Slurm is what the site counts as one: a core or a hardware thread.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from router.errors import OutputError
from router.hpc import QueueReport, figures, waiting
from router.hpc.slurm.records import RECORD_END, UNIT_END

COUNTED: Final = ("State", "Partition", "PendingTime", "Reason", "PriorityLong", "JobID")
"""What squeue is asked for of each job, by the names of its ``-O``."""

_PARTITION, _NODE = "PartitionName", "NodeName"
_WORD: Final = re.compile(r"([A-Za-z][A-Za-z0-9:/_]*)=(\S*)")
_GPUS: Final = re.compile(r"(?<![^,])gpu(?::[^,:()]+)?:(\d{1,6})")
_RUNS: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING"})
_OPEN: Final = {"UP": (True, True), "DOWN": (True, False), "DRAIN": (False, True), "INACTIVE": (False, False)}
"""A partition's state -> whether it takes jobs, whether it starts them (slurm.conf(5))."""
_BROKEN: Final = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILED", "FAILING", "ERROR", "UNKNOWN", "INVALID", "INVALID_REG",
        "FUTURE", "BLOCKED", "MAINT", "MAINTENANCE", "NOT_RESPONDING",
    }
)  # fmt: skip
"""States and flags of nodes that run no job until an admin repairs them. Nodes switched off by power saving are not
broken: Slurm switches them on for a job. Flags of later releases are missing too."""
_SPOKEN_FOR: Final = frozenset(
    {
        "PLANNED", "RESERVED", "POWER_DOWN", "POWERING_DOWN", "POWER_DRAIN", "REBOOT", "REBOOT_REQUESTED",
        "REBOOT_ISSUED",
    }
)  # fmt: skip
"""Flags of working nodes that are not free: they are reserved for certain jobs, or are about to go down or reboot."""
_BROKEN_MARKS: Final = ("*", "$")
"""Suffixes of a node's state in some releases: not responding, in maintenance."""


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    partitions: frozenset[str]
    works: bool
    idle: bool
    cores: int | None
    free: int
    memory: int | None
    gpus: int | None


@dataclass(frozen=True, slots=True)
class _Jobs:
    """What the list of jobs tells.

    :param counted: numbers of jobs by ``queued``/``running`` and partition
    :param waited: the longest wait in each partition, in seconds
    :param listed: the ids of all jobs by partition
    :param lines: of each job that waits for its turn, by partition: its priority below 0, its number, its id
    """

    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    waited: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    listed: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    lines: defaultdict[str, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))


def queue_states(partitions: str, nodes: str, jobs: str) -> dict[str, QueueReport]:
    """Queues by name, of ``scontrol -o show partition``, ``scontrol -o show node`` and ``squeue -O`` with ``COUNTED``.

    :raises OutputError: one of the outputs cannot be read
    """
    known = [_node(one) for one in _lines(nodes, _NODE)]
    counted = _count(jobs)
    found = {}
    for one in _lines(partitions, _PARTITION):
        name = one[_PARTITION]
        state = _queue(name, one, [node for node in known if name in node.partitions], counted.counted)
        line = tuple(job_id for _, _, job_id in sorted(counted.lines[name]))
        listed = frozenset(counted.listed[name])
        found[name] = replace(state, waited=counted.waited[name], line=line, listed=listed)
    return found


def _lines(text: str, first: str) -> Iterable[dict[str, str]]:
    if text and not text.endswith("\n"):
        raise OutputError(("scontrol",), 0, "the answer ends within a line")
    for line in text.splitlines():
        if not line.strip() or line.startswith("No "):  # "No nodes in the system"
            continue
        found = dict(_WORD.findall(line))
        if not line.startswith(f"{first}=") or "State" not in found:
            raise OutputError(("scontrol",), 0, f"not a line with {first} and State: {line[:200]!r}")
        yield found


def _node(found: Mapping[str, str]) -> _Node:
    state = found["State"]
    words = frozenset(re.sub(r"[^A-Z_+]", "", state).split("+"))
    works = not words & _BROKEN and not state.endswith(_BROKEN_MARKS)
    open_ = works and not words & _SPOKEN_FOR
    try:
        cores = figures.count(found.get("CPUEfctv", found.get("CPUTot", "")))
        taken = figures.count(found.get("CPUAlloc", "")) or 0
        memory = figures.mebibytes(found.get("RealMemory", ""))
    except ValueError as error:
        raise OutputError(("scontrol",), 0, f"node {found[_NODE]}: {error}") from error
    gpus = sum(int(one) for one in _GPUS.findall(found.get("Gres", "")))
    partitions = frozenset(found.get("Partitions", "").split(","))
    free = max((cores or 0) - taken, 0) if open_ else 0
    idle = open_ and "IDLE" in words and "COMPLETING" not in words
    return _Node(found[_NODE], partitions, works, idle, cores, free, memory, gpus)


def _count(jobs: str) -> _Jobs:
    if jobs and not jobs.endswith(f"{RECORD_END}\n"):
        raise OutputError(("squeue",), 0, "the list ends within a record")
    found = _Jobs()
    for record in jobs.split(f"{RECORD_END}\n")[:-1]:
        values = [value.strip() for value in record.split(UNIT_END)]
        if (
            len(values) != len(COUNTED)
            or not re.fullmatch(r"[A-Z_]+", values[0])
            or not re.fullmatch(r"\S+", values[1])
        ):
            raise OutputError(("squeue",), 0, f"not a job: {record[:200]!r}")
        state, partitions, pending, reason, priority, job_id = values
        queued = state not in _RUNS
        turn = queued and not waiting.aside_at_slurm(reason)
        try:
            seconds = _waited(pending) if turn else 0
            rank = (-(figures.count(priority) or 0), figures.count(job_id) or 0, job_id)
        except ValueError as error:
            raise OutputError(("squeue",), 0, f"PendingTime, PriorityLong or JobID: {error}") from error
        # A pending job may wait for several partitions at once.
        for partition in partitions.split(","):
            found.counted["queued" if queued else "running", partition] += 1
            found.listed[partition].add(job_id)
            found.waited[partition] = max(found.waited[partition], seconds)
            if turn:
                found.lines[partition].append(rank)
    return found


def _waited(pending: str) -> int:
    """Seconds of a PendingTime. It is below 0 where the clock of squeue's host is behind the controller's."""
    return 0 if re.fullmatch(r"-\d+", pending) else figures.count(pending) or 0


def _queue(
    name: str, found: Mapping[str, str], nodes: Iterable[_Node], counted: Mapping[tuple[str, str], int]
) -> QueueReport:
    if found["State"] not in _OPEN:
        raise OutputError(("scontrol",), 0, f"partition {name}: not a state: {found['State'][:100]!r}")
    enabled, started = _OPEN[found["State"]]
    nodes = tuple(nodes)
    try:
        walltimes = [figures.seconds(found.get(key, "")) for key in ("MaxTime", "DefaultTime")]
        most_nodes = figures.count(found.get("MaxNodes", ""))
    except ValueError as error:
        raise OutputError(("scontrol",), 0, f"partition {name}: {error}") from error
    return QueueReport(
        name=name,
        enabled=enabled,
        started=started,
        reason="" if enabled and started else f"State={found['State']}",
        walltime_max=walltimes[0],
        walltime_default=walltimes[1],
        nodes_max=most_nodes,
        nodes=sum(node.works for node in nodes),
        free_nodes=sum(node.idle for node in nodes),
        cores_per_node=figures.most(node.cores for node in nodes),
        memory_per_node=figures.most(node.memory for node in nodes),
        gpus_per_node=figures.most(node.gpus for node in nodes),
        free_cores=sum(node.free for node in nodes),
        queued=counted.get(("queued", name), 0),
        running=counted.get(("running", name), 0),
        broken=tuple(node.name for node in nodes if not node.works),
    )
