"""Checks a site helper's answers, as its user can put another program in its place.

Pure. Each operation has one form of answer. Anything else is a FramingError, and all later answers are then ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from router.host import Ended, Status
from router.host.framing import FramingError, Message
from router.host.sitehelper import MOST_BODY, MOST_LISTED, MOST_NAMES, MOST_OUTPUT, OLDEST, VERSION

NOT_UNDERSTOOD: Final = -1
"""Takes the place of an errno: the request itself was wrong."""
_KINDS: Final = frozenset({"file", "directory", "other"})
_MOST_ERRNO: Final = 4095
_LONGEST_WORDS: Final = 2000
_MOST_SECONDS: Final = 1e12
"""Limit of a time, before or after 1970: beyond it a time cannot be written as a date."""
_MOST_BYTES: Final = 1 << 63
_MORE_OUTPUT: Final = 1 << 19
"""Bytes beyond ``MOST_OUTPUT``: a site helper has read some when it notices the excess, and adds its own text."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An operation that failed: an errno (0 if unknown) or NOT_UNDERSTOOD, and a text."""

    number: int
    words: str


def room(asked: Mapping[str, object]) -> int:
    """The number of bytes that may follow the JSON object of a request's answer."""
    operation = asked["do"]
    if operation == "read":
        return _whole(asked["limit"], 0, MOST_BODY, "limit")
    return {"names": MOST_LISTED, "run": MOST_OUTPUT + _MORE_OUTPUT}.get(str(operation), 0)


def number(message: Message) -> int:
    """The number of the request that this message answers. Raises FramingError."""
    return _whole(message.head.get("n"), 0, _MOST_BYTES, "n")


def speaks(message: Message) -> bool:
    """Whether this agent and the site helper that answers have a version of the protocol in common.

    A site helper of version 1 that names no oldest version serves its own alone.
    """
    found, oldest = message.head.get("version"), served(message)
    if type(found) is not int or oldest is None:
        return False
    return OLDEST <= found <= VERSION or oldest <= VERSION < found


def served(message: Message) -> int | None:
    """The oldest version whose agents the site helper serves; None without a number."""
    oldest = message.head.get("oldest", message.head.get("version"))
    return oldest if type(oldest) is int else None


def failure(message: Message) -> Failure | None:
    """The failure in an answer; None for a success. Raises FramingError."""
    if "error" not in message.head:
        return None
    words = message.head["error"]
    if not isinstance(words, str):
        raise FramingError(f"the error {shown(words)} is no text")
    found = _whole(message.head.get("errno"), NOT_UNDERSTOOD, _MOST_ERRNO, "errno")
    return Failure(found, words[:_LONGEST_WORDS].encode(errors="replace").decode())  # JSON can hold lone surrogates


def nothing(message: Message) -> None:
    """The value of an operation without one."""


def flag(message: Message) -> bool:
    """The truth value of an answer. Raises FramingError."""
    value = _value(message)
    if not isinstance(value, bool):
        raise FramingError(f"{shown(value)} is neither true nor false")
    return value


def clock(message: Message) -> float:
    """Seconds since 1970. Raises FramingError."""
    return _seconds(_value(message))


def status(message: Message) -> Status | None:
    """The status of a path; None if it is missing. Raises FramingError."""
    value = _value(message)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3 or not isinstance(value[0], str) or value[0] not in _KINDS:
        raise FramingError(f"{shown(value)} is no file's status")
    return Status(value[0], _whole(value[1], 0, _MOST_BYTES, "size"), _seconds(value[2]))


def ended(message: Message) -> Ended:
    """How a command ended; the body holds its stdout, then its stderr. Raises FramingError."""
    value = _value(message)
    if not isinstance(value, list) or len(value) != 2:
        raise FramingError(f"{shown(value)} is no command's end")
    code = None if value[0] is None else _whole(value[0], -255, 255, "exit code")
    length = _whole(value[1], 0, len(message.body), "length")
    return Ended(code, message.body[:length], message.body[length:])


def names(message: Message) -> list[bytes]:
    """The names in a directory. Raises FramingError for an invalid name, or too many."""
    if message.body.count(b"\0") >= MOST_NAMES:
        raise FramingError(f"more than {MOST_NAMES} names of one directory came")
    found = message.body.split(b"\0") if message.body else []
    for one in found:
        if one in (b"", b".", b"..") or b"/" in one:
            raise FramingError(f"{one!r:.80} is no name in a directory")
    return found


def block(message: Message, wanted: int) -> bytes:
    """At most ``wanted`` bytes of a file. Raises FramingError if there are more."""
    if len(message.body) > wanted:
        raise FramingError(f"{len(message.body)} bytes of a file came, where {wanted} were asked for")
    return message.body


def shown(value: object) -> str:
    """A value as text for an error. A list or object is only named, as it may be too deep to print."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!r:.80}"


def _value(message: Message) -> object:
    if "value" not in message.head:
        raise FramingError("an answer has neither a value nor an error")
    return message.head["value"]


def _whole(value: object, least: int, most: int, what: str) -> int:
    if type(value) is not int or not least <= value <= most:  # a bool is an int too
        raise FramingError(f"{what}: {shown(value)} is no whole number from {least} to {most}")
    return value


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not abs(value) < _MOST_SECONDS:  # type: ignore[arg-type]  # so also NaN
        raise FramingError(f"{shown(value)} is no time")
    return float(value)  # type: ignore[arg-type]  # as just seen
