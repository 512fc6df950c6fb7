r"""When which part of a log came: the index of (time, offset) beside it.

Pure. Logs are raw bytes without times. Whoever looks at a log that has grown notes a *mark*: up to this offset the
bytes were there at that time. A byte's time is that of the first mark beyond it, and a line's time is that of its
first byte, so that times are as exact as the looking, never too early, and never go back.

The file holds one mark a line, ``<milliseconds since 1970> <offset>\n``. It lies where the user's programs can write:
what cannot be read there is passed over, and what goes backwards does not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

MOST: Final = 512
"""Marks in an index. Twice the marks would halve the error of times long ago, which nobody asks for to the minute."""

FILE_LIMIT: Final = MOST * 40
"""Bytes of an index file that are read: two numbers of at most 19 digits a mark."""

_LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, beyond which RFC 3339 has no words."""
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to ``offset`` bytes were there at ``time``, in milliseconds since 1970."""

    time: int
    offset: int


def noted(last: Mark | None, size: int, modified: int, now: int) -> Mark | None:
    """The mark for a log that is seen with this size; None where it has not grown.

    :param modified: milliseconds; when the file server says that it was written last
    :param now: milliseconds of our own clock. Clocks differ: the future is cut off, and time does not go back.
    """
    before = last or Mark(0, 0)
    if size <= before.offset:
        return None
    return Mark(max(before.time, min(modified, now)), size)


def parse(text: bytes) -> tuple[Mark, ...]:
    """The marks of an index file, in order; lines that are no marks or go backwards are left out."""
    marks: list[Mark] = []
    for line in text[:FILE_LIMIT].split(b"\n")[:-1]:
        time, _, offset = line.partition(b" ")
        if not (time.isdigit() and offset.isdigit() and len(line) < 40):
            continue
        last = marks[-1] if marks else Mark(0, 0)
        mark = Mark(int(time), int(offset))
        if last.time <= mark.time <= _LATEST and last.offset < mark.offset <= _LARGEST:
            marks.append(mark)
    return tuple(marks)


def text(marks: Sequence[Mark]) -> bytes:
    """What ``parse`` reads."""
    return "".join(f"{mark.time} {mark.offset}\n" for mark in marks).encode()


def merged(marks: Sequence[Mark], newer: Iterable[Mark]) -> tuple[Mark, ...]:
    """Marks with newer ones behind them, thinned where they are too many: the older, the coarser."""
    result = list(marks)
    for mark in newer:
        last = result[-1] if result else Mark(0, 0)
        if mark.offset > last.offset:
            result.append(Mark(max(mark.time, last.time), mark.offset))
    while len(result) > MOST:
        # From the end, so that the last one stays; what a mark covered takes the time of the next.
        result = result[::-1][::2][::-1]
    return tuple(result)


def since(marks: Sequence[Mark], time: int) -> int:
    """Offset of the first byte that came at ``time`` or later; that of the last mark where there is none."""
    older = bisect_left(marks, time, key=lambda mark: mark.time)
    return marks[older - 1].offset if older else 0


class Times:
    """The times of a log's bytes, asked for from its beginning to its end.

    :param marks: what is known; what has been passed is forgotten
    """

    def __init__(self, marks: Iterable[Mark]) -> None:
        self._marks = deque(marks)
        self._last = self._marks[-1] if self._marks else Mark(0, 0)

    def seen(self, offset: int, now: int) -> None:
        """There are bytes up to this offset now."""
        mark = noted(self._last, offset, now, now)
        if mark is not None:
            self._marks.append(mark)
            self._last = mark

    def at(self, offset: int) -> tuple[bytes, int]:
        """The timestamp of the byte at an offset, and the offset from which on another one counts."""
        while self._marks and self._marks[0].offset <= offset:
            self._marks.popleft()
        if not self._marks:
            raise IndexError(f"no time is known for the byte at {offset}: seen() comes first")
        return stamp(self._marks[0].time), self._marks[0].offset


def stamp(time: int) -> bytes:
    """A line's prefix as the kubelet prints it: RFC 3339 with nine digits, UTC, and a space."""
    seconds, milliseconds = divmod(time, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}000000Z ".encode()
