r"""The index of a log: pairs of (time, offset) that say when each part of the log was written.

Pure. Logs are raw bytes without times. The agent notes a *mark* when it sees that a log has grown: at this time, the
bytes up to this offset existed. A byte has the time of the first mark beyond it, and a line the time of its first byte.
So times are as exact as the polling, never too early, and in order.

The file holds one mark per line, ``<milliseconds since 1970> <offset>\n``. The user's programs can write to it, so
unreadable lines and marks that go backwards are ignored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

MOST: Final = 512
"""Marks in an index. More marks would make only old times more exact, which users hardly need to the minute."""

FILE_LIMIT: Final = MOST * 40
"""Bytes of an index file that are read: each mark has two numbers of at most 19 digits."""

_LATEST: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the last that RFC 3339 can express."""
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Mark:
    """At ``time`` (milliseconds since 1970) the log had ``offset`` bytes."""

    time: int
    offset: int


def noted(last: Mark | None, size: int, modified: int, now: int) -> Mark | None:
    """The mark for a log that has grown to this size, else None.

    :param modified: milliseconds; the last write by the file server's clock
    :param now: milliseconds of our own clock. As clocks differ, a mark is at most ``now`` and at least the last mark.
    """
    before = last or Mark(0, 0)
    if size <= before.offset:
        return None
    return Mark(max(before.time, min(modified, now)), size)


def parse(text: bytes) -> tuple[Mark, ...]:
    """The marks of an index file, in order; invalid lines and marks that go backwards are left out."""
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
    """The index file of these marks, as ``parse`` reads it."""
    return "".join(f"{mark.time} {mark.offset}\n" for mark in marks).encode()


def merged(marks: Sequence[Mark], newer: Iterable[Mark]) -> tuple[Mark, ...]:
    """Marks followed by newer ones; if there are too many, they are thinned, older ones more often."""
    result = list(marks)
    for mark in newer:
        last = result[-1] if result else Mark(0, 0)
        if mark.offset > last.offset:
            result.append(Mark(max(mark.time, last.time), mark.offset))
    while len(result) > MOST:
        # Drop every second one, from the end, so that the last stays. Bytes of a dropped mark get the next mark's time.
        result = result[::-1][::2][::-1]
    return tuple(result)


def since(marks: Sequence[Mark], time: int) -> int:
    """The offset of the first byte written at ``time`` or later; without one, the offset of the last mark."""
    older = bisect_left(marks, time, key=lambda mark: mark.time)
    return marks[older - 1].offset if older else 0


class Times:
    """The times of a log's bytes, queried from beginning to end.

    :param marks: the known marks; passed ones are forgotten
    """

    def __init__(self, marks: Iterable[Mark]) -> None:
        self._marks = deque(marks)
        self._last = self._marks[-1] if self._marks else Mark(0, 0)

    def seen(self, offset: int, now: int) -> None:
        """Note that the log now has bytes up to this offset."""
        mark = noted(self._last, offset, now, now)
        if mark is not None:
            self._marks.append(mark)
            self._last = mark

    def at(self, offset: int) -> tuple[bytes, int]:
        """The timestamp of the byte at an offset, and the offset at which the next timestamp begins."""
        while self._marks and self._marks[0].offset <= offset:
            self._marks.popleft()
        if not self._marks:
            raise IndexError(f"no time is known for the byte at {offset}: seen() comes first")
        return stamp(self._marks[0].time), self._marks[0].offset


def stamp(time: int) -> bytes:
    """A line's prefix as the kubelet prints it: RFC 3339 with nine digits, UTC, and a space."""
    seconds, milliseconds = divmod(time, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}000000Z ".encode()
