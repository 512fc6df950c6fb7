"""The lines of a log as a page shows them: long ones are cut, and one that is written over is shown as it is last.

Pure. Parts of a log begin and end anywhere. In what is shown, a carriage return begins the present line anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

LONGEST: Final = 8192
"""Characters of a line that are shown: a browser takes seconds to lay out a line of millions."""


@dataclass(frozen=True, slots=True)
class _Place:
    """How far the present line has come.

    :param shown: its characters that are shown; ``left_out`` are the others
    :param returned: whether it ends in a carriage return. One before the line's end means nothing
    """

    shown: int = 0
    left_out: int = 0
    returned: bool = False


def shortened(parts: Iterable[str]) -> Iterator[str]:
    """A log, part by part, with its long lines cut; after each stands how much of it is left out."""
    place = _Place()
    for part in parts:
        text, place = _shorten(part, place)
        if text:
            yield text
    if place.left_out:
        yield _mark(place)


def _shorten(part: str, place: _Place) -> tuple[str, _Place]:
    *ended, last = (f"\r{part}" if place.returned else part).split("\n")
    pieces = []
    for line in ended:
        piece, place = _extend(line.rstrip("\r"), place)
        pieces += [piece, _mark(place), "\n"]
        place = _Place()
    rest = last.rstrip("\r")
    piece, place = _extend(rest, place)
    return "".join([*pieces, piece]), replace(place, returned=rest != last)


def _extend(text: str, place: _Place) -> tuple[str, _Place]:
    """What is shown of a text that goes on with a line."""
    _, anew, rest = text.rpartition("\r")
    if anew:
        place = _Place()
    shown = rest[: LONGEST - place.shown]
    return anew + shown, _Place(place.shown + len(shown), place.left_out + len(rest) - len(shown))


def _mark(place: _Place) -> str:
    """It has a line of its own, so that no character of the cut line changes its direction."""
    return f"\n[{place.left_out:,} more characters of this line are left out]" if place.left_out else ""


def latest(text: str) -> str:
    """A text in which each line that is written over has its last state alone."""
    first = text.find("\r")
    if first < 0:
        return text
    # A page adds part after part to a text in its last state: only what follows there is work.
    begin = text.rfind("\n", 0, first) + 1
    return text[:begin] + "\n".join([line.rpartition("\r")[2] for line in text[begin:].split("\n")])


def last(text: str, most: int) -> str:
    """Whole lines of at most so many characters from the end of a text whose long lines are cut."""
    return text if len(text) <= most else text[-most - 1 :].partition("\n")[2]
