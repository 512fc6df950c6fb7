"""Messages between the agent and a site helper: a JSON object and raw bytes behind two lengths.

Pure. The site helper's file defines the format; this module takes its numbers from there.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.host.sitehelper import LENGTHS, MAGIC, MOST_BODY, MOST_HEAD

MOST_CHATTER: Final = 1 << 16
"""Bytes that a login shell may print before the site helper's first message."""
MOST_ANSWER_HEAD: Final = 1 << 16
"""Bytes of an answer's JSON object: a number, a few values, or one sentence. Long values are raw bytes after it."""


class FramingError(ValueError):
    """The received bytes are no message of a site helper."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or answer."""

    head: Mapping[str, Any]
    body: bytes


def encode(head: Mapping[str, object], body: bytes = b"") -> bytes:
    """A message as bytes. Raises OSError (EFBIG) if it is too large."""
    raw = json.dumps(head).encode()
    if len(raw) > MOST_HEAD or len(body) > MOST_BODY:
        raise OSError(errno.EFBIG, f"{len(raw) + len(body)} bytes are more than one message to a site helper holds")
    return LENGTHS.pack(len(raw), len(body)) + raw + body


class Decoder:
    """Turns received bytes into whole messages. Bytes before the site helper's mark (``MAGIC``) are skipped.

    :param room: returns how many bytes may follow a message's object, before any is kept; may raise FramingError
    """

    def __init__(self, room: Callable[[Mapping[str, Any]], int]) -> None:
        self._kept = bytearray()
        self._room = room
        self._head: Mapping[str, Any] | None = None
        self._length = 0
        self.began = False
        """Whether the mark was seen: bytes before it come from a login shell."""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are now complete. Raises FramingError."""
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
        if self._head is None and not self._begun():
            return None
        if self._head is None or len(self._kept) < self._length:
            return None
        message = Message(self._head, bytes(memoryview(self._kept)[: self._length]))
        del self._kept[: self._length]
        self._head = None
        return message

    def _begun(self) -> bool:
        """Whether the object of the next message has arrived."""
        if len(self._kept) < LENGTHS.size:
            return False
        head, body = LENGTHS.unpack_from(self._kept)
        if head > MOST_ANSWER_HEAD or body > MOST_BODY:
            raise FramingError(f"a message of {head + body} bytes is announced, which is too long")
        end = LENGTHS.size + head
        if len(self._kept) < end:
            return False
        found = _object(bytes(memoryview(self._kept)[LENGTHS.size : end]))
        if body > (most := self._room(found)):
            raise FramingError(f"{body} bytes are announced, where at most {most} were asked for")
        del self._kept[:end]
        self._head, self._length = found, body
        return True


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):  # RecursionError: for example a long run of brackets
        raise FramingError(f"{raw[:80]!r} is no JSON") from None
    if not isinstance(found, dict):
        raise FramingError(f"{raw[:80]!r} is no JSON object")
    return found
