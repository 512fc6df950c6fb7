"""A client that speaks SPDY/3.1: what API servers translate `kubectl exec` to, and older kubectls speak themselves.

Shell (asyncio). The connection was an HTTP server's; its protocol is replaced, and told of the connection's end.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from router.remotecommand import spdy
from router.remotecommand.requests import Stream, Wanted
from router.remotecommand.streams import HIGH, Sizes, refuse

PROTOCOL: Final = "v4.channel.k8s.io"
UPGRADE: Final = "SPDY/3.1"
CREATION_SECONDS: Final = 30.0
"""In which a client opens its streams; a kubelet's figure."""
LEAVING_SECONDS: Final = 10.0
"""In which a client leaves after the end. Before that a close could take away what it has not read yet."""
_MOST_STREAMS: Final = 16


def answer(offered: str) -> bytes:
    """The answer to the upgrade request.

    :param offered: the protocols that the client knows (``X-Stream-Protocol-Version``), joined by commas
    :raises RequestError: 400, none of them is known here
    """
    if PROTOCOL not in [one.strip() for one in offered.split(",")]:
        raise refuse(f"unable to upgrade, the client knows [{offered[:200]}] and this kubelet API [{PROTOCOL}]")
    lines = (
        "HTTP/1.1 101 Switching Protocols",
        "Connection: Upgrade",
        f"Upgrade: {UPGRADE}",
        f"X-Stream-Protocol-Version: {PROTOCOL}",
    )
    return "\r\n".join((*lines, "", "")).encode()


class SpdyClient(asyncio.Protocol):
    """See ``router.remotecommand.streams.Client``.

    :param before: the protocol that the connection had
    """

    def __init__(self, transport: asyncio.Transport, before: asyncio.BaseProtocol, wanted: Wanted) -> None:
        self._transport = transport
        self._before = before
        self._wanted = wanted
        self._stdin = asyncio.StreamReader(limit=HIGH)
        self._stdin.set_transport(transport)  # it stops reading the connection while too much waits
        self._over = False
        self._sizes = Sizes()
        self._decoder, self._encoder = spdy.Decoder(), spdy.Encoder()
        self._ids: dict[Stream, int] = {}
        self._last = 0
        self._complete, self._closed, self._writable = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._writable.set()

    async def begin(self, head: bytes) -> None:
        """Answer the upgrade request; wait until the client has opened its streams. Raises ConnectionError."""
        self._transport.set_write_buffer_limits(high=HIGH)
        self._transport.set_protocol(self)
        self._transport.write(head)
        try:
            async with asyncio.timeout(CREATION_SECONDS):
                await self._complete.wait()
        except TimeoutError:
            self._transport.abort()
            raise ConnectionAbortedError("the client opened no streams") from None
        self._demand()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        try:
            for frame in self._decoder.feed(data):
                self._take(frame)
        except spdy.SpdyError:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Called by the loop."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by the loop."""
        self._writable.set()

    def eof_received(self) -> bool:
        """Called by the loop: a client that stops sending is leaving."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._closed.set()
        self._complete.set()
        self._writable.set()
        self._end_stdin()
        self._before.connection_lost(exc)

    async def read(self) -> bytes:
        """See ``Client``."""
        return await self._stdin.read(spdy.MOST_DATA)

    async def size(self) -> tuple[int, int]:
        """See ``Client``."""
        return await self._sizes.next()

    async def write(self, stream: Stream, content: bytes) -> None:
        """See ``Client``."""
        if stream in self._ids:
            for start in range(0, len(content), spdy.MOST_DATA):
                await self._send(spdy.data(self._ids[stream], content[start : start + spdy.MOST_DATA]))

    async def finish(self, status: bytes) -> None:
        """See ``Client``."""
        for stream in (Stream.STDOUT, Stream.STDERR):
            if stream in self._ids:
                await self._send(spdy.data(self._ids[stream], b"", fin=True))
        await self._send(spdy.data(self._ids[Stream.ERROR], status, fin=True))
        await self._send(spdy.go_away(self._last))
        self._over = True  # what still comes for the command is dropped
        self._transport.resume_reading()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await self._closed.wait()
        self._transport.close()

    async def gone(self) -> None:
        """See ``Client``."""
        await self._closed.wait()

    def _demand(self) -> None:
        if self._closed.is_set():
            raise ConnectionResetError("the client is gone")

    async def _send(self, frame: bytes) -> None:
        self._demand()
        self._transport.write(frame)
        await self._writable.wait()

    def _take(self, frame: spdy.Frame) -> None:
        match frame:
            case spdy.Opened(stream, headers, fin):
                self._open(stream, headers.get("streamtype", ""))
                if fin:
                    self._data(spdy.Data(stream, b"", fin))
            case spdy.Data():
                self._data(frame)
            case spdy.Reset(stream):
                self._data(spdy.Data(stream, b"", fin=True))
            case spdy.Ping(number):
                if self._transport.get_write_buffer_size() > 4 * HIGH:
                    raise spdy.SpdyError("the client asks for answers and does not read them")
                self._transport.write(spdy.ping(number))
            case spdy.GoAway():
                pass  # its streams go on; it closes the connection after them

    def _open(self, stream: int, kind: str) -> None:
        if stream <= self._last or not stream % 2 or self._last > 2 * _MOST_STREAMS:
            raise spdy.SpdyError("a stream's number is not the next")
        self._last = stream
        if kind not in set(self._wanted.streams) - set(self._ids):
            self._transport.write(spdy.reset(stream))
            return
        self._ids[Stream(kind)] = stream
        self._transport.write(self._encoder.reply(stream))
        if len(self._ids) == len(self._wanted.streams):
            self._complete.set()

    def _data(self, frame: spdy.Data) -> None:
        if frame.stream == self._ids.get(Stream.STDIN):
            if frame.data and not self._over:
                self._stdin.feed_data(frame.data)
            if frame.fin:
                self._end_stdin()
        elif frame.stream == self._ids.get(Stream.RESIZE):
            self._sizes.feed(frame.data)

    def _end_stdin(self) -> None:
        if not self._over:
            self._over = True
            self._stdin.feed_eof()
