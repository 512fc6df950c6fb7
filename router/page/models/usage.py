"""What a Pod used against what it asked for, as far as the batch system reports it.

Pure. OpenPBS and TORQUE report ``mem``, ``cput`` and ``walltime``; Slurm's figures have the same names here. They come
with the end of the batch job. How far GPUs were used stands in none of these reports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router import placement
from router.errors import JobError
from router.hpc import figures
from router.notation import durations
from router.operating.story import Decision, PodStory
from router.pod.status import TERMINAL
from router.policy import Policy
from router.policy.sizes import counted_in
from router.workload import check_bounds, workload_of
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster
from router.workload.model import Figure

_MEMORY, _CORES, _TIME, _GPUS = "Memory", "Core time", "Time", "GPU use"
_KEYS: Final[Mapping[str, str]] = {"mem": _MEMORY, "cput": _CORES, "walltime": _TIME}
_SHOWN: Final = frozenset({*_KEYS, "ncpus", "cpupercent"})
"""The last two say nothing more."""
_DECIMAL: Final = re.compile(r"(\d{1,12}\.\d{1,6})([KMGTP])")
"""Such as sacct's ``1.50G``."""
_CLOUD: Final = "What Pods in the cloud use is not looked at here: ask kubectl top pod."
_RUNNING: Final = "What it uses is told here when its batch job has ended; until then ask kubectl top pod."


@dataclass(frozen=True, slots=True)
class Asked:
    """What one Pod of a Job asks for: millicores, bytes, devices, seconds; None for what it leaves open."""

    cpu: int | None = None
    memory: int | None = None
    gpus: int | None = None
    walltime: int | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """One figure of a Pod. ``share``: of what it asked for, in percent, None if either is unknown."""

    title: str
    used: str
    asked: str
    share: int | None


def asked_of(
    job: dict[str, Any], decision: Decision, policy: Policy | None, cluster: Cluster = UNKNOWN_CLUSTER
) -> Asked:
    """What a Job asks for, as the gate sizes it for the rule that decided; nothing is known of an invalid Job.

    :param policy: the one of now, or None if it is unknown: then as rules count by default
    :param cluster: what it fills in where the Job leaves something open
    """
    try:
        check_bounds(job, "")
        own = placement.strip(job).job
        gpus = policy.gpu_resources if policy else {}
        workload = workload_of(own, namespace=job["metadata"]["namespace"], cluster=cluster, gpu_resources=gpus)
    except JobError:
        return Asked()
    if policy is not None:
        workload = counted_in(workload, policy, decision.rule)
    wanted = (workload.cpu, workload.memory, workload.gpus, workload.walltime_asked)
    return Asked(*map(_value, wanted))


def _value(figure: Figure | None) -> int | None:
    return figure.value if figure is not None and figure.value else None


def usage(pod: PodStory, asked: Asked) -> tuple[Used, ...]:
    """The figures of a Pod that are known; figures that cannot be read are shown as the batch system wrote them."""
    used = _told(pod)
    wall = _read(figures.seconds, used.get("walltime", ""))
    core_seconds = None if wall is None or not asked.cpu else wall * asked.cpu // 1000
    rows = [
        _row(_MEMORY, used.get("mem", ""), _size, asked.memory, _bytes),
        _row(_CORES, used.get("cput", ""), figures.seconds, core_seconds, durations.show),
        _row(_TIME, used.get("walltime", ""), figures.seconds, asked.walltime, durations.show),
    ]
    told = tuple(row for row in rows if row is not None)
    return (*told, *(Used(key, value, "", None) for key, value in sorted(used.items()) if key not in _SHOWN))


def untold(pod: PodStory, asked: Asked, *, on_hpc: bool) -> str:
    """A sentence about what is not known of a Pod's use; empty if it has used nothing, or if all is known."""
    if not any(one.started for one in pod.containers):
        return ""
    if not on_hpc:
        return _CLOUD
    if pod.phase not in TERMINAL:
        return _RUNNING
    used = _told(pod)
    lacking = [title for key, title in _KEYS.items() if not used.get(key)] + ([_GPUS] if asked.gpus else [])
    return f"Not told by the batch system: {', '.join(lacking)}." if lacking else ""


def _told(pod: PodStory) -> dict[str, str]:
    """The figures of the report. Processes have some memory: a job of 0 bytes is one whose processes were not counted."""
    used = {str(key): str(value) for key, value in pod.used.items()}
    if _read(_size, used.get("mem", "")) == 0:
        used = {key: value for key, value in used.items() if key not in ("mem", "cput", "vmem")}
    return used


def _size(text: str) -> int | None:
    """Bytes, also with decimals as sacct writes them."""
    found = _DECIMAL.fullmatch(text)
    return int(float(found[1]) * 1024 ** " KMGTP".index(found[2])) if found else figures.size(text)


def _bytes(value: int) -> str:
    """Rounded to what a person compares: ``1.5 GiB``."""
    for size, unit in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value} B"


def _row(
    title: str, text: str, read: Callable[[str], int | None], asked: int | None, show: Callable[[int], str]
) -> Used | None:
    if not text:
        return None
    value = _read(read, text)
    if value is None:
        return Used(title, text, show(asked) if asked else "", None)
    share = round(100 * value / asked) if asked else None
    return Used(title, show(value), show(asked) if asked else "", share)


def _read(read: Callable[[str], int | None], text: str) -> int | None:
    try:
        return read(text) if text else None
    except ValueError:
        return None
