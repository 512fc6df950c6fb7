"""The decisions of the last day, by rule and target, out of the Jobs that are in the cluster.

Pure. A Job that was denied or has been deleted is no longer in the cluster, so it is missing here; ``logged`` has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from router.page.models.looking import Sight
from router.page.models.rows import JobRow

DAY: Final = 86400
HOURS: Final = 24
_MARKS: Final = ("solid", "striped", "dotted", "crossed")
"""Patterns of bars; all groups from the fourth on share the last one."""


@dataclass(frozen=True, slots=True)
class Group:
    """The Jobs of one rule and target. Times are seconds since 1970.

    :param place: ``site/queue``, or ``cloud``
    :param people: how many asked, and whether some are unknown: Jobs that were not judged lack their maker
    :param reason: of the newest Job, which ``newest`` names as (namespace, name)
    :param mark: the pattern of its bars
    """

    rule: str
    place: str
    count: int
    share: int
    people: str
    first: int
    last: int
    reason: str
    newest: tuple[str, str]
    mark: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an hour's bar, in percent of the plot's height from its foot."""

    foot: float
    height: float
    mark: str
    words: str


@dataclass(frozen=True, slots=True)
class Hour:
    """One bar. ``left``: in percent of the plot's width. ``begin``: seconds since 1970."""

    left: float
    begin: int
    count: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """All of them. ``most``: Jobs in the fullest hour."""

    total: int
    groups: tuple[Group, ...]
    hours: tuple[Hour, ...]
    most: int


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. ``created``: seconds since 1970. ``place``: ``site/queue``, ``cloud`` or ``deny``."""

    created: int
    rule: str
    place: str
    requester: str
    reason: str
    namespace: str
    name: str


def decisions(sight: Sight) -> Decisions:
    """The decisions of the 24 hours before now; groups with most Jobs first."""
    since = int(sight.now) - DAY
    rows = [_decided(row) for row in sight.jobs if row.created > since]
    groups = groups_of(rows)
    hours, most = _hours(rows, {(one.rule, one.place): one.mark for one in groups}, since)
    return Decisions(len(rows), groups, hours, most)


def _decided(row: JobRow) -> Decided:
    facts = row.facts
    return Decided(row.created, row.rule, row.place, row.requester, row.reason, facts.namespace, facts.name)


def groups_of(rows: Sequence[Decided]) -> tuple[Group, ...]:
    """The decisions by rule and target; groups with most of them first."""
    found: defaultdict[tuple[str, str], list[Decided]] = defaultdict(list)
    for row in rows:
        found[row.rule, row.place].append(row)
    ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    return tuple(
        _group(key, own, len(rows), _MARKS[min(index, len(_MARKS) - 1)]) for index, (key, own) in enumerate(ordered)
    )


def _group(key: tuple[str, str], rows: Sequence[Decided], total: int, mark: str) -> Group:
    newest = max(rows, key=lambda row: (row.created, row.namespace, row.name))
    return Group(
        rule=key[0],
        place=key[1],
        count=len(rows),
        share=round(100 * len(rows) / total),
        people=_people(rows),
        first=min(row.created for row in rows),
        last=newest.created,
        reason=newest.reason,
        newest=(newest.namespace, newest.name),
        mark=mark,
    )


def _people(rows: Sequence[Decided]) -> str:
    """``2``, ``2 and unknown`` or ``unknown``."""
    known = {row.requester for row in rows if row.requester}
    lacking = any(not row.requester for row in rows)
    return " and ".join([*([str(len(known))] if known else []), *(["unknown"] if lacking else [])])


def _hours(rows: Iterable[Decided], marks: dict[tuple[str, str], str], since: int) -> tuple[tuple[Hour, ...], int]:
    counted: list[defaultdict[tuple[str, str], int]] = [defaultdict(int) for _ in range(HOURS)]
    for row in rows:
        counted[min(HOURS - 1, (row.created - since) * HOURS // DAY)][row.rule, row.place] += 1
    most = max((sum(one.values()) for one in counted), default=0)
    hours = tuple(
        Hour(
            left=round(100 * index / HOURS, 2),
            begin=since + index * DAY // HOURS,
            count=sum(one.values()),
            pieces=tuple(_pieces(one, marks, max(1, most))),
        )
        for index, one in enumerate(counted)
    )
    return hours, most


def _pieces(counts: dict[tuple[str, str], int], marks: dict[tuple[str, str], str], most: int) -> Iterable[Piece]:
    foot = 0.0
    for key, mark in marks.items():
        if count := counts.get(key, 0):
            height = 100 * count / most
            yield Piece(round(foot, 2), round(height, 2), mark, f"{count} by rule {key[0]} to {key[1]}")
            foot += height
