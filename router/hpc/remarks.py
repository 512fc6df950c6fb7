"""What filters and hooks of a site print at a submission that came out well, beside the id of the job.

Pure. Whoever wrote them chose their words, which a user is to read ("your allocation is nearly spent"); they may be of
any length, in colour, or no text at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from router.errors import OutputError

LONGEST: Final = 600
"""Characters of all remarks on one submission: an Event holds 1,024 bytes, with our own words before them."""
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
"""A terminal's sequences (ECMA-48): CSI, OSC with its text, and the short ones."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was made. ``remarks`` is what was printed beside its id, in one line; empty where that is nothing."""

    job_id: str
    remarks: str = ""


def submitted(stdout: str, stderr: str, job_id: Callable[[str], str]) -> Submitted:
    """What a submit command that did its work has printed.

    :param job_id: the batch system's own, of ``router.hpc.BatchSystem``
    :raises OutputError: there is no id in it
    """
    lines = stdout.splitlines()
    found = job_id(stdout)
    mark = next((place for place in reversed(range(len(lines))) if _holds_id(lines[place], job_id)), len(lines))
    return Submitted(found, remarks([*lines[:mark], *lines[mark + 1 :], *stderr.splitlines()]))


def remarks(lines: list[str]) -> str:
    """Lines as one, without a terminal's sequences, control characters, empty and repeated lines, of bounded length."""
    cleaned = [" ".join("".join(_printed(_ESCAPE.sub("", line))).split()) for line in lines]
    text = "; ".join(dict.fromkeys(line for line in cleaned if line))
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _printed(line: str) -> Iterator[str]:
    """Tabs as spaces; what is no character in UTF-8 as its mark; nothing that steers a terminal or the writing."""
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
