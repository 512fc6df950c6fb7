"""What a site must be able to do, and whether it does: probe jobs, what they printed, verdicts.

Pure. Nothing here submits, waits or reads: ``router.sitecheck.checking`` does, and passes on what it saw. Each verdict is a
``Line``; docs/preflight.md says what each line means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LAUNCHER: Final = "launcher/"
"""Before an MPI profile's name: its line. One that must be mended concerns the MPI Jobs of that profile alone."""


class Mark(StrEnum):
    """How a line stands. ``MUST``: Jobs would fail or be lost on this site until it is mended."""

    OK = "ok"
    WARNING = "warning"
    MUST = "must"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a check.

    ``name`` is a stable word of docs/preflight.md; ``user`` is the HPC user as whom it was seen, empty where that makes
    no difference. ``change`` is empty where nothing has to be changed. ``undecided``: further lines of this user could not
    be looked at, and nothing is known of them.
    """

    name: str
    user: str
    mark: Mark
    seen: str
    expected: str
    change: str = ""
    undecided: bool = False


def worst(lines: Iterable[Line]) -> Mark:
    """The verdict on all lines together."""
    marks = {line.mark for line in lines}
    return next((mark for mark in (Mark.MUST, Mark.WARNING) if mark in marks), Mark.OK)
