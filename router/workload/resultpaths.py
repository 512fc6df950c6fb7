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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from router.errors import TooLarge
from router.workload.model import Container, Workload

_EMPTY: Final = frozenset({"emptyDir", ""})
_ANY_DEPTH: Final = "**"
_TWICE: Final = ("**", "**")
_MOST_NAMED: Final = 3
_LONGEST_WARNING: Final = 240
DEEPEST: Final = 100
"""Parts of a container's working directory and of a mount's two paths, where a Job names results."""
MOST_PLACES: Final = 1000
"""Places in volumes that a Job's paths may mean: each path times the mounts that may hold it."""
LONGEST_PLACES: Final = 128 * 1024
"""Characters of all of them: they lie in a file on the site, and are read whole."""
MOST_STEPS: Final = 60_000
"""Comparisons of one name with one pattern while a Job's paths are looked up: a tenth of a second at the worst."""
_WEIGHT: Final = 16
"""Characters of a pattern's part that are one more comparison."""
_LONGEST_NAME: Final = 255
"""Of one directory or file (``NAME_MAX``): no longer name is compared with a pattern."""

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


class _Steps:
    """Comparisons that are left; TooLarge for one more."""

    def __init__(self, field: str) -> None:
        self._left = MOST_STEPS
        self._field = field

    def take(self, patterns: Collection[Pattern]) -> None:
        """For one name."""
        self._left -= cost(patterns)
        if self._left < 0:
            advice = "name fewer or plainer paths, or mount fewer volumes"
            raise TooLarge(self._field, f"takes more than {MOST_STEPS} comparisons with the paths of mounts; {advice}")


def resolve(workload: Workload, paths: Iterable[str], field: str) -> Plan:
    """What the paths of a Job's hint mean in its Pods. TooLarge where that is too much to look up.

    :param field: the hint's, for the error
    """
    _demand_shallow(workload)
    empty = {volume.name for volume in workload.volumes if volume.kind in _EMPTY}
    wanted: dict[Wanted, None] = {}
    problems = []
    steps, size = _Steps(field), 0
    for said in paths:
        parts = _pattern(said)
        if parts and parts[0] in empty and not said.startswith("./"):
            found: Iterable[Wanted] = [Wanted(said, parts[0], parts[1:])]
        else:
            found = (
                one for container in workload.containers for one in _in_mounts(said, parts, container, empty, steps)
            )
        some = False
        for one in found:
            some = True
            if one not in wanted:
                wanted[one] = None
                size += length([one])
                _demand_few(len(wanted), size, field)
        if not some:
            problems.append(_nowhere(said, parts, workload, steps))
    return Plan(tuple(wanted), tuple(problems))


def length(wanted: Iterable[Wanted]) -> int:
    """Characters of places, and some more for each part of their patterns."""
    return sum([len(one.said) + len(one.volume) + sum([len(part) + 4 for part in one.pattern]) for one in wanted])


def _demand_few(count: int, size: int, field: str) -> None:
    advice = "use globs such as out/*.dat, begin paths with a volume's name, or mount fewer volumes"
    if count > MOST_PLACES:
        raise TooLarge(field, f"means more than {MOST_PLACES} places in the Pod's volumes; {advice}")
    if size > LONGEST_PLACES:
        raise TooLarge(field, f"means places in the Pod's volumes of more than {LONGEST_PLACES} characters; {advice}")


def _demand_shallow(workload: Workload) -> None:
    for container in workload.containers:
        given = [(f"{container.path}.workingDir", _directory(container))]
        for index, mount in enumerate(container.mounts):
            where = f"{container.path}.volumeMounts[{index}]"
            given += [(f"{where}.mountPath", mount.path), (f"{where}.subPath", mount.sub_path)]
        for where, path in given:
            if path.count("/") >= DEEPEST and len(_parts(path)) > DEEPEST:
                raise TooLarge(where, f"has more than {DEEPEST} parts between /, too many for a Job that names results")


def plan(workload: Workload) -> Plan:
    """What a Job's own hint means in its Pods. TooLarge where that is more than an agent would look for."""
    return resolve(workload, workload.results, workload.results_field) if workload.results else Plan()


def warnings(problems: Sequence[str]) -> tuple[str, ...]:
    """Sentences about paths of a Job's hint that can be nowhere, a few at most."""
    more = f" {len(problems) - _MOST_NAMED} more such results will not be brought."
    shown = [f"Result {one[:_LONGEST_WARNING]}." for one in problems[:_MOST_NAMED]]
    return (*shown, more.strip()) if len(problems) > _MOST_NAMED else tuple(shown)


def _parts(path: str) -> Pattern:
    return tuple(part for part in path.split("/") if part not in {"", "."})


def _pattern(said: str) -> Pattern:
    """A line's parts. A ``**`` behind another is left out: both together are any number of directories, too."""
    parts = _parts(said)
    return tuple([part for last, part in zip(("", *parts), parts, strict=False) if (last, part) != _TWICE])


def _in_mounts(
    said: str, parts: Pattern, container: Container, volumes: Collection[str], steps: _Steps
) -> Iterator[Wanted]:
    whole = opened([(*_working_directory(container), *parts)])
    for mount in container.mounts:
        if mount.volume in volumes:
            inside = _inside(whole, _parts(mount.path), steps)
            if not inside:
                continue
            below = tuple(glob.escape(part) for part in _parts(mount.sub_path))
            yield from (Wanted(said, mount.volume, (*below, *rest)) for rest in sorted(_closed(inside)))


def _directory(container: Container) -> str:
    return (container.launcher.working_dir if container.launcher else "") or container.working_dir


def _working_directory(container: Container) -> Pattern:
    """Its parts as patterns that match only themselves."""
    return tuple(glob.escape(part) for part in _parts(_directory(container)))


def _inside(patterns: frozenset[Pattern], directory: Pattern, steps: _Steps) -> frozenset[Pattern]:
    """What is left of patterns below a directory."""
    for name in directory:
        steps.take(patterns)
        patterns = after(patterns, name)
        if not patterns:
            break
    return patterns


def _nowhere(said: str, parts: Pattern, workload: Workload, steps: _Steps) -> str:
    kinds = {volume.name: volume.kind for volume in workload.volumes if volume.kind not in _EMPTY}
    there = next(
        (one for container in workload.containers for one in _in_mounts(said, parts, container, kinds, steps)), None
    )
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


def _closed(patterns: frozenset[Pattern]) -> frozenset[Pattern]:
    """The fewest patterns that ``opened`` makes these of."""
    return patterns - {pattern[1:] for pattern in patterns if pattern[:1] == (_ANY_DEPTH,)}


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


def cost(patterns: Collection[Pattern]) -> int:
    """Comparisons that ``after`` makes for one name; a long pattern counts as several."""
    return sum([1 + len(one[0]) // _WEIGHT for one in patterns if one], 1)


def is_meant(patterns: frozenset[Pattern]) -> bool:
    """Whether a file of which these patterns are left is one of those that are wanted."""
    return () in patterns


def _matches(name: str, pattern: str) -> bool:
    if len(name) > _LONGEST_NAME:
        return False
    return (not name.startswith(".") or pattern.startswith(".")) and _matcher(pattern)(name) is not None


@functools.lru_cache(maxsize=8192)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """As fnmatch.fnmatchcase, which remembers so few patterns that those of one Pod were compiled for each name anew."""
    return re.compile(fnmatch.translate(pattern)).match
