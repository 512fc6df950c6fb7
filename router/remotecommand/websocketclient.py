"""A client that speaks WebSockets with a byte for the stream before each message, as other clients than kubectl do.

Shell (aiohttp, which carries the protocol). API servers pass these connections on as they are, except for version 5.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import WSMsgType, web

from router.remotecommand.requests import Stream, Wanted
from router.remotecommand.spdy import MOST_DATA
from router.remotecommand.streams import Sizes, refuse

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_CLOSING: Final = 255
"""The stream of version 5 whose messages name a stream that ends."""
_NUMBERS: Final = {Stream.STDIN: 0, Stream.STDOUT: 1, Stream.STDERR: 2, Stream.ERROR: 3, Stream.RESIZE: 4}
_PING_SECONDS: Final = 30.0
_LEAVING_SECONDS: Final = 10.0
_MOST_MESSAGE: Final = 1 << 20


class WebSocketClient:
    """See ``router.remotecommand.streams.Client``. A connection that is lost cancels its handler.

    :param response: an answer to the upgrade request that is not sent yet
    """

    def __init__(self, response: web.WebSocketResponse, wanted: Wanted) -> None:
        self._response = response
        self._streams = wanted.streams
        self._stdin: asyncio.Queue[bytes] = asyncio.Queue(maxsize=1)
        self._sizes = Sizes()
        self._reading: asyncio.Task[None] | None = None

    async def begin(self, request: web.BaseRequest) -> None:
        """Answer the upgrade request. Raises ConnectionError."""
        await self._response.prepare(request)
        self._reading = asyncio.get_running_loop().create_task(self._read())
        first = Stream.STDOUT if Stream.STDOUT in self._streams else Stream.ERROR
        await self._send(first, b"")  # a kubelet says so that the connection is there

    async def read(self) -> bytes:
        """See ``Client``."""
        return await self._stdin.get()

    async def size(self) -> tuple[int, int]:
        """See ``Client``."""
        return await self._sizes.next()

    async def write(self, stream: Stream, content: bytes) -> None:
        """See ``Client``."""
        if stream in self._streams:
            await self._send(stream, content)

    async def finish(self, status: bytes) -> None:
        """See ``Client``."""
        await self._send(Stream.ERROR, status)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(ConnectionError):
            await self._response.close()

    async def gone(self) -> None:
        """See ``Client``."""
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def _send(self, stream: Stream, content: bytes) -> None:
        if self._response.closed:
            raise ConnectionResetError("the client is gone")
        await self._response.send_bytes(bytes([_NUMBERS[stream]]) + content)

    async def _read(self) -> None:
        """Take messages until the client closes. It waits while the command does not read, and so holds the client."""
        stdin = Stream.STDIN in self._streams
        async for message in self._response:
            content = message.data if message.type is WSMsgType.BINARY else b""
            if not content:
                continue
            number, rest = content[0], content[1:]
            if number == _NUMBERS[Stream.STDIN] and stdin and rest:
                for start in range(0, len(rest), MOST_DATA):
                    await self._stdin.put(rest[start : start + MOST_DATA])
            elif number == _CLOSING and rest == bytes([_NUMBERS[Stream.STDIN]]) and stdin:
                stdin = False
                await self._stdin.put(b"")
            elif number == _NUMBERS[Stream.RESIZE]:
                self._sizes.feed(rest)


def response(offered: str) -> web.WebSocketResponse:
    """The answer to the upgrade request.

    :param offered: the protocols that the client knows (``Sec-WebSocket-Protocol``), joined by commas
    :raises RequestError: 400, none of them is known here
    """
    if not {one.strip() for one in offered.split(",")}.intersection(PROTOCOLS):
        raise refuse(f"unable to upgrade, the client knows [{offered[:200]}] and this kubelet API {list(PROTOCOLS)}")
    return web.WebSocketResponse(
        protocols=PROTOCOLS, heartbeat=_PING_SECONDS, max_msg_size=_MOST_MESSAGE, timeout=_LEAVING_SECONDS
    )
