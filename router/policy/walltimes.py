"""Checks times in a policy that are valid alone but wrong together, or that are easily misread.

Pure. Yields problems and warnings; raises nothing. ``router.notation.durations`` reads single times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeVar

from router.errors import Problem
from router.notation import durations
from router.policy import conditions
from router.policy.model import Candidate
from router.policy.reading import Placed
from router.policy.schema import Rule
from router.site.schema import Entry, Site

E = TypeVar("E", bound=Entry)
_KEYS: Final = frozenset(
    {"walltimeDefault", "walltimeMax", "maxWalltime", "walltime", "margin", "fsDelay", "keep", "minInterval"}
)
_MINUTE: Final = 60
_SECONDS: Final = re.compile(
    rf"""//[^\n]*|(?<![\w.])seconds\s*\(\s*(?P<text>{conditions.STRING})\s*\)|{conditions.STRING}""", re.DOTALL
)


def too_short(placed: Placed[Site]) -> Iterator[Problem]:
    """Problems for queues whose longest walltime the site's margin uses up."""
    site = placed.value
    for index, queue in enumerate(site.queues):
        if queue.walltime_max is not None and (said := _no_time("walltimeMax", queue.walltime_max, site)):
            below = ("queues", index, "walltimeMax")
            yield placed.spot.problem(f"queue {queue.name}: {said}{_meant(placed.spot.raw(*below))}", *below)


def too_short_for(placed: Placed[Rule], found: list[Candidate]) -> Iterator[Problem]:
    """Problems for walltime limits of a rule that the site's margin uses up."""
    for candidate in found:
        limit = candidate.choice.max_walltime
        if limit is not None and (said := _no_time("maxWalltime", limit, candidate.site)):
            index = (placed.value.hpc or ()).index(candidate.choice)
            below = ("hpc", index, "maxWalltime")
            said += _meant(placed.spot.raw(*below))
            yield placed.spot.problem(f"hpc: queue {candidate.queue.name}: {said}", *below)


def _meant(written: object) -> str:
    said = durations.doubt(written) if isinstance(written, str) else None
    return f"; {said}" if said else ""


def _no_time(key: str, value: int, site: Site) -> str:
    if value > site.margin + _MINUTE:
        return ""
    return (
        f"{key} {durations.show(value)} leaves the containers no time: the margin of site {site.name} is "
        f"{durations.show(site.margin)}; it must be longer than that by more than {durations.show(_MINUTE)}"
    )


def doubts(placed: Placed[E]) -> Iterator[str]:
    """Warnings about times with a single colon in an entry or in a rule's condition."""
    for key, text in _times(placed.spot.raw()):
        if said := durations.doubt(text):
            yield f"{placed.spot.line}: {placed.spot.where}: {key} {said}"
    if isinstance(placed.value, Rule):
        for match in _SECONDS.finditer(placed.value.when):
            if match["text"] and (said := durations.doubt(conditions.text_of(match["text"]))):
                yield f"{placed.spot.line}: {placed.spot.where}: when: {said}"


def _times(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _times(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _KEYS and isinstance(item, str):
                yield key, item
            else:
                yield from _times(item)


def below_default(placed: Placed[Rule], found: list[Candidate]) -> Iterator[str]:
    """Warnings about walltime limits that also shorten the default of Jobs that ask for no walltime."""
    if placed.value.defaults.walltime is not None:
        return
    for candidate in found:
        limit, default = candidate.choice.max_walltime, candidate.queue.walltime_default
        if limit is not None and default is not None and limit < default:
            yield (
                f"{placed.spot.line}: {placed.spot.where}: Jobs that ask for no walltime get maxWalltime "
                f"{durations.show(limit)} in queue {candidate.queue.name}, not its walltimeDefault {durations.show(default)}"
            )
