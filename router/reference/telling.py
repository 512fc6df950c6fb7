"""Words what becomes of the fields of one Job: those that are translated, and those without effect.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from router.reference.rows import Row
from router.reference.table import told

_MOST_LINES: Final = 10
_OPTION: Final = "--fields"


def lines(spec: Mapping[str, object], path: str, in_the_way: Iterable[str], *, whole: bool) -> list[str]:
    """A line for each row that counts for a Job's spec, in the manifest's order; empty without any.

    :param in_the_way: what keeps the Job in the cloud, each beginning with a field's path: such fields are left out
    :param whole: a line for each field, also those with a value that says nothing; else few lines
    """
    found = rows(spec, path, in_the_way, whole=whole)
    if whole:
        return [_line((place,), row) for place, row in found]
    alike: dict[tuple[str, str], list[tuple[str, Row]]] = {}
    for place, row in found:
        alike.setdefault((row.outcome, row.says), []).append((place, row))
    shown = [_line([place for place, _ in listed], listed[0][1]) for listed in alike.values()]
    more = len(shown) - _MOST_LINES
    return [*shown[:_MOST_LINES], f"and {more} more: {_OPTION} names every field"] if more > 0 else shown


def rows(spec: Mapping[str, object], path: str, in_the_way: Iterable[str], *, whole: bool) -> list[tuple[str, Row]]:
    """The fields that ``lines`` tells, each with its path and row."""
    blocked = tuple(in_the_way)
    return [(place, row) for place, row in told(spec, path, whole=whole) if not _is_in_the_way(place, blocked)]


def _line(places: Sequence[str], row: Row) -> str:
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f"{places[0]}{more} ({row.outcome}): {row.says}"


def _is_in_the_way(place: str, blocked: tuple[str, ...]) -> bool:
    beginnings = (f"{place}:", f"{place}.", f"{place}[")
    return any(one.startswith(beginnings) for one in blocked)
