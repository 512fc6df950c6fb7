"""Interprets the paths of a Job's hint ``results`` in its Pods, and decides whether a file is a wanted one.

Pure. A path is read in one of two ways (docs/results.md). If its first part names an ``emptyDir`` of the Pod, it is
below this volume. Else it is relative to the working directory of each container, and means the files there that are in
a mounted ``emptyDir``. All other files of a container are deleted with it.
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
from router.workload.fields import LONGEST_WARNING
from router.workload.model import Container, Workload

_EMPTY: Final = frozenset({"emptyDir", "ephemeral", ""})
_ANY_DEPTH: Final = "**"
_TWICE: Final = ("**", "**")
_MOST_NAMED: Final = 3
DEEPEST: Final = 100
"""Most parts of a container's working directory and of a mount's two paths in a Job that names results."""
MOST_PLACES: Final = 1000
"""Most places in volumes that a Job's paths may mean: each path times the mounts that may hold it."""
LONGEST_PLACES: Final = 128 * 1024
"""Most characters of all places: they are in a file on the site that is read whole."""
MOST_STEPS: Final = 60_000
"""Most comparisons of a name with a pattern for one Job's paths: these take a tenth of a second at most."""
_WEIGHT: Final = 16
"""This many characters of a pattern's part count as one more comparison."""
_LONGEST_NAME: Final = 255
"""Most characters of a name (``NAME_MAX``): longer names match no pattern."""

Pattern = tuple[str, ...]
"""Globs, one for each part of a path; empty for the directory itself with everything in it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Files below a volume. ``said`` is the path as the user wrote it."""

    said: str
    volume: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Plan:
    """The results to collect of a Pod. ``problems`` are sentences about paths that can never match."""

    wanted: tuple[Wanted, ...] = ()
    problems: tuple[str, ...] = ()


class _Steps:
    """Counts down the comparisons that are left, and raises TooLarge at the end."""

    def __init__(self, field: str) -> None:
        self._left = MOST_STEPS
        self._field = field

    def take(self, patterns: Collection[Pattern]) -> None:
        """Count the comparisons of one name with the patterns."""
        self._left -= cost(patterns)
        if self._left < 0:
            advice = "name fewer or plainer paths, or mount fewer volumes"
            raise TooLarge(self._field, f"takes more than {MOST_STEPS} comparisons with the paths of mounts; {advice}")


def resolve(workload: Workload, paths: Iterable[str], field: str) -> Plan:
    """The plan for the paths of a Job's hint in its Pods. Raises TooLarge if there is too much to look up.

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
    """The size of places in characters, with 4 more for each part of their patterns."""
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
    """The plan for a Job's own hint. Raises TooLarge if it is more than an agent would look for."""
    return resolve(workload, workload.results, workload.results_field) if workload.results else Plan()


def warnings(problems: Sequence[str]) -> tuple[str, ...]:
    """Warnings about paths of a Job's hint that can never match: the first few, and the number of the rest."""
    more = f" {len(problems) - _MOST_NAMED} more such results will not be collected."
    shown = [f"Result {one[: LONGEST_WARNING - len('Result .')]}." for one in problems[:_MOST_NAMED]]
    return (*shown, more.strip()) if len(problems) > _MOST_NAMED else tuple(shown)


def _parts(path: str) -> Pattern:
    return tuple(part for part in path.split("/") if part not in {"", "."})


def _pattern(said: str) -> Pattern:
    """The parts of a line. Of several ``**`` in a row only one is kept, as it means any number of directories."""
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
    """The parts of the working directory, as patterns that match only themselves."""
    return tuple(glob.escape(part) for part in _parts(_directory(container)))


def _inside(patterns: frozenset[Pattern], directory: Pattern, steps: _Steps) -> frozenset[Pattern]:
    """The remaining patterns below a directory."""
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
        return f"{said}: lies in volume {volume} ({kinds[volume]}), which is not an emptyDir: results are collected only from emptyDir volumes"
    return f"{said}: is not in an emptyDir of the Pod; other files of a container are deleted with it"


def opened(patterns: Iterable[Pattern]) -> frozenset[Pattern]:
    """The patterns as ``after`` takes them: also without a leading ``**``, which may stand for no directory."""
    found = set(patterns)
    for pattern in tuple(found):
        rest = pattern
        while rest and rest[0] == _ANY_DEPTH:
            rest = rest[1:]
            found.add(rest)
    return frozenset(found)


def _closed(patterns: frozenset[Pattern]) -> frozenset[Pattern]:
    """The fewest patterns from which ``opened`` makes these."""
    return patterns - {pattern[1:] for pattern in patterns if pattern[:1] == (_ANY_DEPTH,)}


def after(patterns: frozenset[Pattern], name: str) -> frozenset[Pattern]:
    """The remaining patterns below an entry of a directory; empty if none matches the entry.

    As in a shell, ``*`` and ``?`` match a name with a leading dot only if the dot is written. ``**`` is any number of
    directories, including 0. A used-up pattern (``()``) means everything below, hidden or not.
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
    """The number of comparisons that ``after`` makes for one name; a long pattern counts as several."""
    return sum([1 + len(one[0]) // _WEIGHT for one in patterns if one], 1)


def is_meant(patterns: frozenset[Pattern]) -> bool:
    """Whether a file with these remaining patterns is wanted."""
    return () in patterns


def _matches(name: str, pattern: str) -> bool:
    if len(name) > _LONGEST_NAME:
        return False
    return (not name.startswith(".") or pattern.startswith(".")) and _matcher(pattern)(name) is not None


@functools.lru_cache(maxsize=8192)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """fnmatch.fnmatchcase with a larger cache: its own is too small, so it would compile a Pod's patterns anew."""
    return re.compile(fnmatch.translate(pattern)).match
