"""Writes figures, one row each with its bound, to build/bench/NAME.json and to the terminal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

DIRECTORY = Path("build/bench")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``bound`` is the promised maximum (with ``at_least`` the minimum); None for a figure without one."""

    figure: str
    value: float
    unit: str
    bound: float | None = None
    at_least: bool = False

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def write(name: str, rows: list[Row], *, printed: int = 0) -> bool:
    """Write all rows, and print those after the first ``printed``; returns whether all promises hold."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / f"{name}.json").write_text(
        json.dumps([asdict(row) | {"kept": row.kept} for row in rows], indent=2) + "\n"
    )
    for row in rows[printed:]:
        bound = "" if row.bound is None else f"  ({'at least' if row.at_least else 'at most'} {row.bound:g})"
        print(f"{'' if row.kept else 'MISSED '}{row.figure:<72}{row.value:>10.3f} {row.unit}{bound}")
    return all(row.kept for row in rows)
