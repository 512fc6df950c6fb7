"""Messages between the agent and a site helper: a JSON object and raw bytes behind two lengths.

Pure. What the site helper itself says of them holds; its numbers are taken from there.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.host.sitehelper import LENGTHS, MAGIC, MOST_BODY, MOST_HEAD

MOST_CHATTER: Final = 1 << 16
"""Bytes that a login shell may print before the site helper speaks."""


class FramingError(ValueError):
    """What came is no message of a site helper."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or answer."""

    head: Mapping[str, Any]
    body: bytes


def encode(head: Mapping[str, object], body: bytes = b"") -> bytes:
    """A message as bytes. OSError (EFBIG) where it is more than a message holds."""
    raw = json.dumps(head).encode()
    if len(raw) > MOST_HEAD or len(body) > MOST_BODY:
        raise OSError(errno.EFBIG, f"{len(raw) + len(body)} bytes are more than one message to a site helper holds")
    return LENGTHS.pack(len(raw), len(body)) + raw + body


class Decoder:
    """Bytes in, as they come; whole messages out. Whatever stands before the site helper's mark is no message."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.began = False
        """Whether the mark was seen: before it, what came is a login shell's."""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are whole by now. FramingError."""
        self._kept += data
        if not self.began:
            self._skip()
        messages = []
        while self.began and (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _skip(self) -> None:
        chatter, mark, rest = bytes(self._kept).partition(MAGIC)
        if mark:
            self.began = True
            self._kept = bytearray(rest)
        elif len(chatter) > MOST_CHATTER:
            raise FramingError(f"no site helper answers; what came begins with {chatter[:80]!r}")

    def _next(self) -> Message | None:
        if len(self._kept) < LENGTHS.size:
            return None
        head, body = LENGTHS.unpack_from(self._kept)
        if head > MOST_HEAD or body > MOST_BODY:
            raise FramingError(f"a message of {head + body} bytes is announced, which is too long")
        end = LENGTHS.size + head + body
        if len(self._kept) < end:
            return None
        message = Message(
            _object(bytes(self._kept[LENGTHS.size : LENGTHS.size + head])), bytes(self._kept[end - body : end])
        )
        del self._kept[:end]
        return message


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):  # the latter: 4 MB of brackets
        raise FramingError(f"{raw[:80]!r} is no JSON") from None
    if not isinstance(found, dict):
        raise FramingError(f"{raw[:80]!r} is no JSON object")
    return found
