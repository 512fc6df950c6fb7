"""``python -m tests.reference.page``: writes ``docs/fields.md`` from the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from router.reference import containers, job, pod, scheduling, security, volumes
from router.reference.rows import OLDEST, Outcome, Row, Rows

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "fields.md"
_HEAD: Final = """\
# Every field of a Job

For users and admins who ask what one field means on HPC. Made from the table in `router/reference` by
`python -m tests.reference.page`; tests compare the table with the schema that a real API server serves, and with what
happens to Jobs. `batchgate explain` names the fields of your Job that are translated or harmless.

| | |
|---|---|
| **honoured** | means what it means in the cloud |
| **translated** | becomes something else on HPC |
| **harmless** | has no effect on HPC; where a user could miss it, a warning says so |
| **keeps the Job in the cloud** | the reason that the Job gets names the field, with this sentence |

*Cloud if* is the sentence by which some values, or some sites, keep the Job in the cloud. Any other field,
such as one of a newer Kubernetes, keeps a Job in the cloud as *not known to Batchgate*.
"""
_SECTIONS: Final = (
    ("The Job and its template", job.TYPES),
    ("The Pod", pod.TYPES),
    ("Containers", containers.TYPES),
    ("Security", security.TYPES),
    ("Nodes", scheduling.TYPES),
    ("Volumes", volumes.TYPES),
)


def text() -> str:
    """The whole page."""
    lines = [line for title, types in _SECTIONS for line in (f"\n## {title}\n", *_section(types))]
    return _HEAD + "\n".join(lines) + "\n"


def _section(types: Mapping[str, Rows]) -> Iterator[str]:
    shared = {kind: rows for kind, rows in types.items() if all(row.outcome is Outcome.ABOVE for row in rows.values())}
    for kind, rows in types.items():
        if kind not in shared:
            yield f"### {kind}\n\n| field | on HPC | |\n|---|---|---|"
            yield from _lines(rows)
            yield ""
    if shared:
        yield "The fields of these share the outcome of the field that holds them.\n"
        for kind, rows in shared.items():
            yield f"* {kind}: {_names(rows)}"


def _lines(rows: Rows) -> Iterator[str]:
    """A line for each outcome with its words: fields that share them stand together."""
    alike: dict[Row, dict[str, Row]] = {}
    for name, row in rows.items():
        alike.setdefault(replace(row, holds="", since=OLDEST) if row.says else row, {})[name] = row
    return (f"| {_names(named)} | {row.outcome} | {_told(row)} |" for row, named in alike.items())


def _names(rows: Rows) -> str:
    return ", ".join(f"`{name}`{'' if row.since == OLDEST else f' (1.{row.since})'}" for name, row in rows.items())


def _told(row: Row) -> str:
    told = f"*{row.says}*" if row.outcome is Outcome.CLOUD else _sentence(row.says)
    if row.outcome is Outcome.PARTS:
        told = f"See [{row.holds}](#{row.holds.lower()})."
    more = [f"Cloud if: *{row.kept}*." if row.kept else "", f"Warning: *{row.warned}*." if row.warned else ""]
    return " ".join([one for one in (told, *more) if one])


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""


if __name__ == "__main__":
    PAGE.write_text(text())
