"""A client's streams, whatever protocol carries them.

Shell (asyncio).
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from router.errors import RequestError
from router.remotecommand import requests
from router.remotecommand.requests import Stream

HIGH: Final = 64 * 1024
"""Bytes of a direction that are kept while the other side does not take them."""


class Client(Protocol):
    """The streams of one client. All methods raise ConnectionError once the client is gone."""

    async def read(self) -> bytes:
        """Bytes for the command's stdin; empty at its end."""

    async def size(self) -> tuple[int, int]:
        """The terminal's next size, as columns and rows; waits for it."""

    async def write(self, stream: Stream, content: bytes) -> None:
        """Send output; waits while the client does not read."""

    async def finish(self, status: bytes) -> None:
        """End the output, send the status, and wait for a while for the client to leave."""

    async def gone(self) -> None:
        """Wait until the client is gone."""


class Inlet:
    """What a client sends: stdin and terminal sizes. While too much of stdin waits, the connection is not read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.stdin = asyncio.StreamReader(limit=HIGH)
        self.stdin.set_transport(transport)
        self._transport = transport
        self._over = False
        self.sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(maxsize=1)
        self._rest = b""

    def feed(self, content: bytes) -> None:
        """Take bytes of stdin; none after its end."""
        if content and not self._over:
            self.stdin.feed_data(content)

    def drop(self) -> None:
        """From now on what comes is dropped."""
        self._over = True
        self._transport.resume_reading()

    def resized(self, content: bytes) -> None:
        """Take bytes of the stream of sizes. Only the last size counts."""
        found, self._rest = requests.sizes(self._rest + content)
        for size in found:
            if self.sizes.full():
                self.sizes.get_nowait()
            self.sizes.put_nowait(size)

    def ended(self) -> None:
        """The end of stdin."""
        if not self._over:
            self._over = True
            self.stdin.feed_eof()


def refuse(words: str) -> RequestError:
    """A refusal before the connection changes its protocol.

    It has no "name: value", which an API server up to 1.31 reads as YAML, and shows "unknown error" in its place.
    """
    return RequestError(400, words.replace(": ", ", "))
