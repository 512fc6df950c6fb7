"""Writes and reads the place of a span in a trace, and holds spans that have ended.

Pure. The text is the ``traceparent`` of W3C's Trace Context (w3.org/TR/trace-context, version 00). An id of a Pod's span
follows from the Pod's uid and the span's name, so whoever knows these can name the span, now and after a restart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_SAMPLED: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-01")
"""Matches what Batchgate itself writes: version 00, valid ids (all zero is invalid), and the flag "sampled" alone."""


@dataclass(frozen=True, slots=True)
class Place:
    """A sampled span's place: hexadecimal, 32 digits of its trace and 16 of its own."""

    trace_id: str
    span_id: str

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended, or will be told with this end. Times are seconds since 1970.

    :param parent: the span above it
    :param links: spans of earlier tries of the same work
    :param error: why the work failed, in one word; empty if it did not
    """

    name: str
    place: Place
    parent: Place
    began: float
    ended: float
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    links: tuple[Place, ...] = ()
    error: str = ""


def read(text: object) -> Place | None:
    """The place that a ``traceparent`` of Batchgate's names; None for any other text, such as that of an unsampled span."""
    found = _SAMPLED.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else Place(found[1], found[2])


def of_pod(trace_id: str, uid: str, name: str) -> Place:
    """The place of a Pod's span of this name."""
    digest = hashlib.sha256(f"{uid}/{name}".encode(errors="replace")).hexdigest()[:16]
    return Place(trace_id, digest if int(digest, 16) else f"{1:016x}")
