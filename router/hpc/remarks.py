"""Remarks: what a site's filters and hooks print beside the job id when a submission succeeds.

Pure. Their text is for the user ("your allocation is nearly spent"). It may be of any length, in colour, or binary.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from router.errors import OutputError

LONGEST: Final = 600
"""Characters of all remarks on one submission: an Event holds 1,024 bytes, and our own words precede the remarks."""
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""Terminal escape sequences (ECMA-48): CSI, OSC with its text, and the short ones."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submitted job. ``remarks`` is what was printed beside its id, in one line, or empty."""

    job_id: str
    remarks: str = ""


def submitted(stdout: str, stderr: str, job_id: Callable[[str], str]) -> Submitted:
    """The job id and the remarks in the output of a submit command that succeeded.

    :param job_id: ``BatchSystem.job_id`` of the batch system
    :raises OutputError: the output has no job id
    """
    lines = stdout.splitlines()
    found = job_id(stdout)
    mark = next((place for place in reversed(range(len(lines))) if _holds_id(lines[place], job_id)), len(lines))
    return Submitted(found, remarks([*lines[:mark], *lines[mark + 1 :], *stderr.splitlines()]))


def remarks(lines: list[str]) -> str:
    """These lines as one of at most ``LONGEST`` characters, without escape sequences, controls and repeated lines."""
    cleaned = [" ".join("".join(_printed(_ESCAPE.sub("", line))).split()) for line in lines]
    text = "; ".join(dict.fromkeys(line for line in cleaned if line))
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _printed(line: str) -> Iterator[str]:
    """The line's printable characters and tabs; a lone surrogate (a byte that was not UTF-8) becomes U+FFFD."""
    for one in line:
        kind = unicodedata.category(one)
        if kind == "Cs":
            yield "\N{REPLACEMENT CHARACTER}"
        elif one == "\t" or not kind.startswith("C"):
            yield one


def _holds_id(line: str, job_id: Callable[[str], str]) -> bool:
    try:
        job_id(line)
    except OutputError:
        return False
    return True
