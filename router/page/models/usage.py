"""What a Pod used against what it asked for, as the batch system reports it.

Pure. OpenPBS and TORQUE report ``mem``, ``cput`` and ``walltime``; Slurm's figures have the same names here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from router.hpc import figures
from router.notation import durations, quantity
from router.operating.story import PodStory, Sizes


@dataclass(frozen=True, slots=True)
class Used:
    """One figure of a Pod. ``share``: of what it asked for, in percent, None if either is unknown."""

    title: str
    used: str
    asked: str
    share: int | None


def usage(pod: PodStory, sizes: Sizes) -> tuple[Used, ...]:
    """The figures of a Pod that are known; figures that cannot be read are shown as the batch system wrote them."""
    used = {str(key): str(value) for key, value in pod.used.items()}
    memory = _asked(sizes, "memory", quantity.units)
    cpu = _asked(sizes, "cpu", quantity.millis)
    wall = _read(figures.seconds, used.get("walltime", ""))
    core_seconds = None if wall is None or not cpu else wall * cpu // 1000
    rows = [
        _row("Memory", used.get("mem", ""), figures.size, memory, _bytes),
        _row("Core time", used.get("cput", ""), figures.seconds, core_seconds, durations.show),
        _row("Time", used.get("walltime", ""), figures.seconds, sizes.deadline, durations.show),
    ]
    told = tuple(row for row in rows if row is not None)
    known = {"mem", "cput", "walltime", "ncpus", "cpupercent"}  # the last two say nothing more
    return (*told, *(Used(key, value, "", None) for key, value in sorted(used.items()) if key not in known))


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


def _asked(sizes: Sizes, key: str, read: Callable[[Any], int]) -> int | None:
    """The sum of the containers' limits of a resource, or requests; None if all containers leave it open."""
    found: list[int] = []
    for one in sizes.containers:
        text = one.limits.get(key) or one.requests.get(key)
        try:
            found += [read(text)] if text else []
        except ValueError:
            continue
    return sum(found) if found else None
