"""Judges whether a site can do what it must: texts of probe jobs, their output, verdicts.

Pure. ``router.sitecheck.checking`` submits the probes, waits, reads, and passes on what it saw. Each verdict is a
``Line``; docs/preflight.md says what each line means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LAUNCHER: Final = "launcher/"
"""Prefix of the name of an MPI profile's line. A problem in such a line concerns only the MPI Jobs of that profile."""


class Mark(StrEnum):
    """The mark of a line. ``MUST``: Jobs would fail or be lost on this site until the problem is fixed."""

    OK = "ok"
    WARNING = "warning"
    MUST = "must"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a check.

    :param name: a stable word of docs/preflight.md
    :param user: the HPC user as whom the check was made; empty if that makes no difference
    :param change: what to change; empty if there is nothing to change
    :param undecided: whether other lines of this user could not be checked
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
