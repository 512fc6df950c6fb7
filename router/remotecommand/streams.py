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


class Sizes:
    """The sizes of a client's terminal. Only the last one counts."""

    def __init__(self) -> None:
        self._sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue(maxsize=1)
        self._rest = b""

    def feed(self, content: bytes) -> None:
        """Take bytes of the stream of sizes."""
        found, self._rest = requests.sizes(self._rest + content)
        for size in found:
            if self._sizes.full():
                self._sizes.get_nowait()
            self._sizes.put_nowait(size)

    async def next(self) -> tuple[int, int]:
        """The next size, as columns and rows; waits for it."""
        return await self._sizes.get()


def refuse(words: str) -> RequestError:
    """A refusal before the connection changes its protocol.

    It has no "name: value", which an API server up to 1.31 reads as YAML, and shows "unknown error" in its place.
    """
    return RequestError(400, words.replace(": ", ", "))
