"""A request for a command in a container or for its output, and the status in which it ends.

Pure. Parameters and texts are the kubelet's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from router.errors import RequestError
from router.values import unchanging

MOST_WORDS: Final = 1 << 19
"""Bytes of a command's words; an API server takes about as many in a URL."""


class Stream(StrEnum):
    """The streams of a client, by their names in SPDY's header ``streamType``."""

    ERROR = "error"
    STDIN = "stdin"
    STDOUT = "stdout"
    STDERR = "stderr"
    RESIZE = "resize"


@unchanging
class Wanted:
    """The command's words (none: the container's own output), and the streams that the client wants.

    With a terminal, stderr comes with stdout.
    """

    words: tuple[str, ...]
    stdin: bool
    stdout: bool
    stderr: bool
    terminal: bool

    @property
    def streams(self) -> frozenset[Stream]:
        """The streams that a client of SPDY opens."""
        asked = {
            Stream.STDIN: self.stdin,
            Stream.STDOUT: self.stdout,
            Stream.STDERR: self.stderr,
            Stream.RESIZE: self.terminal,
        }
        return frozenset({Stream.ERROR, *[stream for stream, wanted in asked.items() if wanted]})


def wanted(parameters: Iterable[tuple[str, str]], *, command: bool) -> Wanted:
    """Read the parameters of a request.

    :param command: whether it is for a command, which then needs a word
    :raises RequestError: 400
    """
    flags: dict[str, bool] = {}
    words = []
    for name, value in parameters:
        if name == "command":
            words.append(value)
        flags.setdefault(name, value == "1")
    if command and not (words and words[0]):
        raise RequestError(400, "you must specify at least 1 command for the container")
    if any("\0" in word for word in words) or sum(len(word.encode(errors="replace")) for word in words) > MOST_WORDS:
        raise RequestError(400, f"the command holds NUL, or more than {MOST_WORDS} bytes")
    terminal = flags.get("tty", False)
    stdin, stdout, stderr = (flags.get(name, False) for name in ("input", "output", "error"))
    if not (stdin or stdout or stderr):
        raise RequestError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return Wanted(tuple(words) if command else (), stdin, stdout, stderr and not terminal, terminal)


def ended(code: int) -> bytes:
    """The status of a command that ended with this exit code."""
    if not code:
        return success()
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return _text(
        {
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": causes},
        }
    )


def success() -> bytes:
    """The status of a request that was served to its end."""
    return _text({"status": "Success"})


def failed(words: str) -> bytes:
    """The status of a command that could not be run, or was cut."""
    causes = [{"message": words}]
    return _text(
        {
            "status": "Failure",
            "message": f"Internal error occurred: {words}",
            "reason": "InternalError",
            "details": {"causes": causes},
            "code": 500,
        }
    )


def sizes(text: bytes) -> tuple[Sequence[tuple[int, int]], bytes]:
    """The terminal sizes (columns, rows) in a stream of JSON objects, and the bytes that are not whole yet."""
    *lines, rest = text.replace(b"}", b"}\n").split(b"\n")
    found = []
    for line in lines:
        try:
            size = json.loads(line or b"null")
        except (ValueError, RecursionError):
            continue
        if isinstance(size, Mapping) and (pair := _size(size)) is not None:
            found.append(pair)
    return found, rest[-200:]


def _size(size: Mapping[str, Any]) -> tuple[int, int] | None:
    columns, rows = size.get("Width"), size.get("Height")
    for figure in (columns, rows):
        if isinstance(figure, bool) or not isinstance(figure, int) or not 0 <= figure < 1 << 16:
            return None
    return columns, rows  # type: ignore[return-value]  # both are whole numbers


def _text(status: Mapping[str, Any]) -> bytes:
    return json.dumps({"metadata": {}, **status}, separators=(",", ":")).encode()
