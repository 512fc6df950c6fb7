"""Finds where the last lines of a log begin.

Pure: a generator that asks for blocks from the log's end, so that only needed blocks are read.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

BLOCK: Final = 64 * 1024
"""Bytes of one block, a few hundred lines: the usual ``--tail`` needs one read."""


def tail_start(size: int, lines: int, block: int) -> Generator[tuple[int, int], bytes, int]:
    """Offset at which the last ``lines`` lines of ``size`` bytes begin.

    Yields (offset, length) of the next block that it needs, at most ``block`` bytes, and is sent that block. A last
    line without a newline counts; a newline at the end of the log begins no further line. A block is shorter than asked
    if the log shrank meanwhile; the missing bytes then count as without newlines.
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
