"""Figures as batch systems write them: times, sizes, limits.

Pure. Every parser returns ``None`` for a missing figure or no limit, and raises ValueError for unreadable text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_UNLIMITED: Final = frozenset({"", "UNLIMITED", "INFINITE", "NONE", "N/A", "(null)", "NOT_SET", "--"})
_CLOCK: Final = re.compile(r"(?:(\d{1,9})-)?(\d{1,12}(?::\d{1,6}){0,3})(?:\.\d+)?")
_SIZE: Final = re.compile(r"(\d{1,20})([kmgtpe]?)([bw]?)", re.IGNORECASE)
_POWERS: Final = " kmgtpe"
_WORD_BYTES: Final = 8
_MEBIBYTE: Final = 1024 * 1024


def seconds(text: str) -> int | None:
    """Seconds of a time. PBS: seconds, MM:SS, HH:MM:SS, D:HH:MM:SS. Slurm: ``1-00:00:00``, ``1-12`` (days-hours)."""
    if text.upper() in _UNLIMITED or text in _UNLIMITED:
        return None
    found = _CLOCK.fullmatch(text)
    if not found:
        raise ValueError(f"not a time: {text[:100]!r}")
    parts = [int(part) for part in found[2].split(":")]
    if found[1]:
        parts = [int(found[1]), *parts, 0, 0][:4]
    weights = (1, 60, 3600, 86400)
    return sum(part * weight for part, weight in zip(reversed(parts), weights, strict=False))


def size(text: str) -> int | None:
    """Bytes of a PBS size: ``4gb``, ``204800kb``, ``10mw`` (words of 8 bytes). A bare number is bytes."""
    if text in _UNLIMITED:
        return None
    found = _SIZE.fullmatch(text)
    if not found:
        raise ValueError(f"not a size: {text[:100]!r}")
    unit = _WORD_BYTES if found[3].lower() == "w" else 1
    return int(found[1]) * unit * int(1024 ** max(_POWERS.find(found[2].lower() or " "), 0))


def mebibytes(text: str) -> int | None:
    """Bytes of a node's memory, which Slurm writes in MiB without a unit."""
    found = count(text)
    return None if found is None else found * _MEBIBYTE


def count(text: str) -> int | None:
    """A number without a sign."""
    if text.upper() in _UNLIMITED or text in _UNLIMITED:
        return None
    if not re.fullmatch(r"\d{1,18}", text):
        raise ValueError(f"not a number: {text[:100]!r}")
    return int(text)


def most(figures: Iterable[int | None]) -> int | None:
    """The largest of the figures that are known."""
    return max((one for one in figures if one is not None), default=None)


def least(figures: Iterable[int | None]) -> int | None:
    """The smallest of the figures that are known: the limit that is reached first."""
    return min((one for one in figures if one is not None), default=None)
