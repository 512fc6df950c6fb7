"""Where the last lines of a log begin.

Pure: a conversation about blocks, so that only the blocks which matter are read, from the end.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

BLOCK: Final = 64 * 1024
"""Bytes of one block. A few hundred lines: the usual ``--tail`` is answered by one read."""


def tail_start(size: int, lines: int, block: int) -> Generator[tuple[int, int], bytes, int]:
    """Offset at which the last ``lines`` lines of ``size`` bytes begin.

    Yields (offset, length) of the at most ``block`` bytes that it wants to see next, and is sent them. A last line
    without an end counts as one; the newline at the very end begins no further line. A block that comes back shorter is
    of a log that shrank meanwhile: what is missing holds no line ends.
    """
    if lines == 0:
        return size
    wanted, end = lines, size
    while end > 0:
        start = max(0, end - block)
        data = yield start, end - start
        upto = len(data)
        if end == size and data.endswith(b"\n"):
            upto -= 1
        found = data.count(b"\n", 0, upto)
        if found >= wanted:
            return start + _from_end(data, wanted, upto) + 1
        wanted -= found
        end = start
    return 0


def _from_end(data: bytes, wanted: int, upto: int) -> int:
    """Position of the ``wanted``-th newline before ``upto``, counted from the end."""
    for _ in range(wanted):
        upto = data.rindex(b"\n", 0, upto)
    return upto
