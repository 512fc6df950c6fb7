"""What the paths of a Job's hint ``results`` mean in its Pods, and whether a file is one of those that are meant.

Pure. A path is taken in one of two ways (docs/results.md): if its first part names an ``emptyDir`` of the Pod, it lies
below that; else it is relative to the working directory of each container, and what of it a mounted ``emptyDir`` holds
is meant. Nothing else that a container writes outlives it.
"""

from __future__ import annotations

import fnmatch
import functools
import glob
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from router.workload.model import Container, Workload

_EMPTY: Final = frozenset({"emptyDir", ""})
_ANY_DEPTH: Final = "**"
_MOST_NAMED: Final = 3
_LONGEST_WARNING: Final = 240
_MOST_JUDGED: Final = 10_000
"""Paths times mounts that are looked at while a Job is admitted; the agent looks at any number."""

Pattern = tuple[str, ...]
"""Globs, one for each part of a path; empty: the directory itself, with all in it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Files below a volume. ``said`` is the path as the user wrote it."""

    said: str
    volume: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be brought of a Pod. ``problems`` are sentences about paths that can be nowhere."""

    wanted: tuple[Wanted, ...] = ()
    problems: tuple[str, ...] = ()


def resolve(workload: Workload, paths: Iterable[str]) -> Plan:
    """What the paths of a Job's hint mean in its Pods."""
    empty = {volume.name for volume in workload.volumes if volume.kind in _EMPTY}
    wanted: dict[Wanted, None] = {}
    problems = []
    for said in paths:
        parts = _parts(said)
        if parts and parts[0] in empty and not said.startswith("./"):
            found = [Wanted(said, parts[0], parts[1:])]
        else:
            found = [one for container in workload.containers for one in _in_mounts(said, parts, container, empty)]
        wanted.update(dict.fromkeys(found))
        if not found:
            problems.append(_nowhere(said, parts, workload))
    return Plan(tuple(wanted), tuple(problems))


def warnings(workload: Workload) -> tuple[str, ...]:
    """Sentences about paths of a Job's hint that can be nowhere, a few at most; looked for in Jobs of ordinary size."""
    mounts = sum([len(container.mounts) for container in workload.containers])
    if not workload.results or len(workload.results) * mounts > _MOST_JUDGED:
        return ()
    problems = resolve(workload, workload.results).problems
    more = f" {len(problems) - _MOST_NAMED} more such results will not be brought."
    shown = [f"Result {one[:_LONGEST_WARNING]}." for one in problems[:_MOST_NAMED]]
    return (*shown, more.strip()) if len(problems) > _MOST_NAMED else tuple(shown)


def _parts(path: str) -> Pattern:
    return tuple(part for part in path.split("/") if part not in {"", "."})


def _in_mounts(said: str, parts: Pattern, container: Container, volumes: Collection[str]) -> Iterator[Wanted]:
    whole = opened([(*_working_directory(container), *parts)])
    for mount in container.mounts:
        if mount.volume in volumes:
            inside = _inside(whole, _parts(mount.path))
            below = tuple(glob.escape(part) for part in _parts(mount.sub_path))
            yield from (Wanted(said, mount.volume, (*below, *rest)) for rest in sorted(inside))


def _working_directory(container: Container) -> Pattern:
    """Its parts as patterns that match only themselves."""
    directory = (container.launcher.working_dir if container.launcher else "") or container.working_dir
    return tuple(glob.escape(part) for part in _parts(directory))


def _inside(patterns: frozenset[Pattern], directory: Pattern) -> frozenset[Pattern]:
    """What is left of patterns below a directory."""
    for name in directory:
        patterns = after(patterns, name)
    return patterns


def _nowhere(said: str, parts: Pattern, workload: Workload) -> str:
    kinds = {volume.name: volume.kind for volume in workload.volumes if volume.kind not in _EMPTY}
    there = next((one for container in workload.containers for one in _in_mounts(said, parts, container, kinds)), None)
    if there is not None or (parts and parts[0] in kinds):
        volume = there.volume if there else parts[0]
        return f"{said}: lies in volume {volume} ({kinds[volume]}), which is no emptyDir: nothing is brought from there"
    return f"{said}: lies in no emptyDir of the Pod, and nothing else that a container writes outlives it"


def opened(patterns: Iterable[Pattern]) -> frozenset[Pattern]:
    """The patterns as ``after`` takes them: also without a leading ``**``, which may be no directory at all."""
    found = set(patterns)
    for pattern in tuple(found):
        rest = pattern
        while rest and rest[0] == _ANY_DEPTH:
            rest = rest[1:]
            found.add(rest)
    return frozenset(found)


def after(patterns: frozenset[Pattern], name: str) -> frozenset[Pattern]:
    """What is left of patterns below an entry of a directory; nothing where none matches it.

    As in a shell, ``*`` and ``?`` match no name that begins with a dot, unless the dot is written. ``**`` is any number
    of directories, also none. Where a pattern is used up (``()``), all that lies below is meant, hidden or not.
    """
    left: set[Pattern] = set()
    for pattern in patterns:
        if not pattern:
            left.add(pattern)
        elif pattern[0] == _ANY_DEPTH:
            left.update(() if name.startswith(".") else (pattern,))
        elif _matches(name, pattern[0]):
            left.add(pattern[1:])
    return opened(left)


def is_meant(patterns: frozenset[Pattern]) -> bool:
    """Whether a file of which these patterns are left is one of those that are wanted."""
    return () in patterns


def _matches(name: str, pattern: str) -> bool:
    return (not name.startswith(".") or pattern.startswith(".")) and _matcher(pattern)(name) is not None


@functools.lru_cache(maxsize=8192)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """As fnmatch.fnmatchcase, which remembers so few patterns that those of one Pod were compiled for each name anew."""
    return re.compile(fnmatch.translate(pattern)).match
