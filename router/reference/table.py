"""The whole table: rows by type and field, and the walk from a Job's spec down its fields.

Pure. A value's type follows from the row of its field, so no schema is needed to walk a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from router.reference import containers, job, pod, scheduling, security, volumes
from router.reference.rows import Outcome, Row, Rows

ROOT: Final = "JobSpec"
"""The type at which every walk begins."""
SECTIONS: Final[tuple[Mapping[str, Rows], ...]] = (
    job.TYPES,
    pod.TYPES,
    containers.TYPES,
    security.TYPES,
    scheduling.TYPES,
    volumes.TYPES,
)
TYPES: Final[Mapping[str, Rows]] = {name: rows for section in SECTIONS for name, rows in section.items()}
"""Rows by the name of their type, each type once."""

_HELD: Final[Mapping[str, Mapping[str, str]]] = {
    kind: {name: row.holds for name, row in rows.items()} for kind, rows in TYPES.items()
}
_Below = tuple[str, object, str]
"""A path, the value there, and its type."""
_SHOWN: Final = 80
"""Most characters of a field's name that are shown: a Job may make up names of any length."""


def unknown(spec: Mapping[str, object], path: str) -> Iterator[str]:
    """The paths of all fields of a Job's spec that have no row. Absent values (null, false, 0, empty) have no say."""
    if not _has_unknown(spec):
        return
    waiting: list[_Below] = [(path, spec, ROOT)]
    for here, value, kind in waiting:  # the list grows in the loop
        for name, place, below in _fields(here, value):
            held = _HELD[kind].get(name)
            if held is None:
                yield place
            elif held:
                waiting.append((place, below, held))


def _has_unknown(spec: Mapping[str, object]) -> bool:
    """Whether any field lacks a row: a quick look without paths, as nearly every Job is whole."""
    waiting: list[tuple[Mapping[str, object], str]] = [(spec, ROOT)]
    for fields, kind in waiting:  # the list grows in the loop
        known = _HELD[kind]
        for name, value in fields.items():
            if not value:
                continue
            held = known.get(name)
            if held:
                if isinstance(value, dict):
                    waiting.append((value, held))
                elif isinstance(value, list):
                    waiting += [(one, held) for one in value if isinstance(one, dict)]
            elif held is None:
                return True
    return False


def _fields(path: str, value: object) -> Iterator[tuple[str, str, object]]:
    """Name, path and value of each set field of an object, or of the objects of a list."""
    if isinstance(value, dict):
        yield from [(name, f"{path}.{name[:_SHOWN]}", below) for name, below in value.items() if below]
    elif isinstance(value, list):
        for index, one in enumerate(value):
            if isinstance(one, dict):
                yield from _fields(f"{path}[{index}]", one)


def told(spec: Mapping[str, object], path: str, *, whole: bool = False) -> Iterator[tuple[str, Row]]:
    """The translated and harmless fields of a Job's spec, each with its row, in the manifest's order.

    Fields beneath a field whose row covers them are left out.

    :param whole: also fields with a value that says nothing
    """
    return _told((path, spec, ROOT), whole=whole)


def _told(above: _Below, *, whole: bool) -> Iterator[tuple[str, Row]]:
    path, value, kind = above
    for name, place, below in _fields(path, value):
        row = TYPES[kind].get(name)
        if row is None:
            continue
        if row.outcome in (Outcome.TRANSLATED, Outcome.HARMLESS) and (whole or below != row.usual):
            yield place, row
        if row.holds and not row.covers:
            yield from _told((place, below, row.holds), whole=whole)
