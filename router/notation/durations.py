"""Reads and writes durations in people's notation (``90``, ``5:00``, ``2:00:00``, ``1h30m``), and moments.

Pure. Hints and policy files share one grammar: PBS' own ``[[H:]M:]S``, and the unit form of Go and Kubernetes tools,
with days. Unlike PBS, it allows at most 59 minutes or seconds after a colon, as ``1:90`` is a slip. Durations are whole
seconds from 1, as 0 means "unlimited" to some batch systems.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

LONGEST: Final = 10 * 366 * 86400
_COLONS: Final = re.compile(r"(?:(?:(\d{1,7}):)?(\d{1,7}):)?(\d{1,10})", re.ASCII)
_UNITS: Final = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,7})h)?(?:(\d{1,8})m)?(?:(\d{1,10})s)?", re.ASCII)
_TWO_FIELDS: Final = re.compile(r"(\d{1,7}):(\d{1,2})", re.ASCII)
_EXAMPLES: Final = "write 5400, 1:30:00 or 1h30m"


@lru_cache(maxsize=1024)
def seconds(text: str) -> int:
    """A duration in seconds: at least 1, at most ten years. Raises ValueError, which says what is wrong."""
    text = text.strip()
    if (match := _COLONS.fullmatch(text)) is not None:
        hours, minutes, rest = (int(group or 0) for group in match.groups())
        value = hours * 3600 + minutes * 60 + rest
        if (match[2] and rest > 59) or (match[1] and minutes > 59):  # ambiguous
            raise ValueError(f"{text[:40]!r} has more than 59 minutes or seconds after a colon; {_EXAMPLES}")
    elif text and (match := _UNITS.fullmatch(text)) is not None:
        days, hours, minutes, rest = (int(group or 0) for group in match.groups())
        value = days * 86400 + hours * 3600 + minutes * 60 + rest
    else:
        raise ValueError(f"{text[:40]!r} is not a duration; {_EXAMPLES}")
    if value < 1:
        raise ValueError(f"{text!r} is zero; {_EXAMPLES}")
    if value > LONGEST:
        raise ValueError(f"{text!r} is more than ten years; {_EXAMPLES}")
    return value


def doubt(text: str) -> str | None:
    """A warning about a text such as ``2:00``, which PBS reads as minutes and many people as hours; else None."""
    match = _TWO_FIELDS.fullmatch(text.strip())
    if match is None:
        return None
    left, right = int(match[1]), int(match[2])
    short, long = show(left * 60 + right), show(left * 3600 + right * 60)
    return f"{text.strip()} is {short}, minutes before the colon as in PBS; write {short}, or {long} if hours are meant"


def show(value: int) -> str:
    """Seconds for people: ``45s``, ``5m``, ``1h30m``, ``2d``."""
    if value == 0:
        return "0s"
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, value = divmod(value, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def moment(value: object) -> float:
    """Seconds since 1970, from such a number or from RFC 3339 text. ValueError says what is wrong."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(_NO_MOMENT)
    return found.timestamp()


_NO_MOMENT: Final = "is not a time; write 2026-03-01T12:00:00Z or seconds since 1970"


def show_moment(value: float) -> str:
    """Seconds since 1970 as RFC 3339 in UTC, whole seconds: ``2026-03-01T12:00:00Z``."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def hms(value: int) -> str:
    """Seconds as batch systems write them: ``HH:MM:SS``, hours may exceed 24."""
    return f"{value // 3600:02d}:{value // 60 % 60:02d}:{value % 60:02d}"
