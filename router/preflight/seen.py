"""Reads the output of probe jobs and batch systems into values.

Pure. A file system may show only a part of a file: an incomplete file reads as None, and is read again later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from router.preflight.probe import LINE_BYTES

Report = Mapping[str, tuple[str, ...]]
"""Values by key, in the order in which they were noted."""

_STAMP: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_ATTRIBUTE: Final = r"\b{}\"?\s*[=:>]\s*\"?([^\"\n<,\x1e\x1f]*)"


@dataclass(frozen=True, slots=True)
class Sample:
    """One look from the submitter's side: its time (seconds since 1970), the visible names, the visible bytes."""

    at: float
    names: frozenset[str]
    size: int


def report_of(content: bytes) -> Report | None:
    """The notes of a probe; None if they are incomplete."""
    lines = content.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0].split() != ["begin"] or lines[-1].split() != ["end"]:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for line in lines[1:-1]:
        key, _, value = line.partition(" ")
        found[key] = (*found.get(key, ()), value.strip())
    return found


def first(report: Report, key: str) -> str:
    """The first value of a key; empty if there is none."""
    return report.get(key, ("",))[0]


def complaint(lines: Sequence[str]) -> str:
    """A launcher's complaint on one line: its first paragraph that sounds like an error, else its first paragraph.

    Open MPI frames its words with rulers, and gives advice in further paragraphs. If the paragraph ends with a colon,
    the next one belongs to it.
    """
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if any(character.isalnum() for character in line):
            paragraphs[-1].append(" ".join(line.split()))
        elif paragraphs[-1]:
            paragraphs.append([])
    told = [" ".join(words) for words in paragraphs if words]
    chosen = next((number for number, words in enumerate(told) if _COMPLAINING.search(words)), 0)
    ends = chosen + (2 if told and told[chosen].endswith(":") else 1)
    return " ".join(told[chosen:ends])[:_LONGEST]


_COMPLAINING: Final = re.compile(
    r"\b(?:error|fail|fatal|abort|cannot|can't|could not|unable|not |no such|unknown|unrecognized|invalid|illegal|refused|denied)",
    re.IGNORECASE,
)
_LONGEST: Final = 400


def stamps_of(content: bytes) -> tuple[float, ...]:
    """Times, one per line, as ``date +%s`` and ``date +%s.%N`` print them; other lines are left out."""
    lines = content.decode(errors="replace").splitlines()
    return tuple(float(line) for line in lines if _STAMP.fullmatch(line))


def names_delay(samples: Sequence[Sample], names: frozenset[str]) -> float:
    """The longest time in seconds for which an existing name was invisible. A name begins with its time of creation."""
    since = {name: int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdecimal()}
    return _longest((one.at, [when for name, when in since.items() if name not in one.names]) for one in samples)


def sizes_delay(samples: Sequence[Sample], stamps: Sequence[float]) -> float:
    """The longest time in seconds for which a written line was not visible in the file's size."""
    return _longest((one.at, list(stamps[one.size // LINE_BYTES :])) for one in samples)


def _longest(looks: Iterable[tuple[float, Sequence[float]]]) -> float:
    longest = 0.0
    for at, unseen in looks:
        # Times are cut to whole seconds, so one second of the delay may be due to rounding.
        longest = max(longest, at - min(unseen) - 1 if unseen else 0.0)
    return longest


def attribute_of(details: str, name: str) -> str:
    """An attribute (``Account_Name``, ``project``) in PBS' output about a job: text, JSON or XML; empty if missing."""
    found = re.search(_ATTRIBUTE.format(re.escape(name)), details)
    return found[1].strip() if found else ""
