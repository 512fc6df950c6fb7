"""Changes a connection of the HTTP server to a protocol with streams.

Shell (aiohttp).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import web

from router.remotecommand import spdyclient, websocketclient
from router.remotecommand.requests import Wanted
from router.remotecommand.spdyclient import SpdyClient
from router.remotecommand.streams import Client, refuse
from router.remotecommand.websocketclient import WebSocketClient

_CLOSING: Final = 30.0


class Upgrade:
    """A request to change the protocol. Raises RequestError for a protocol that is not known here."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._response: web.WebSocketResponse | None = None
        self._head = b""
        upgrade, headers = request.headers.get("Upgrade", "").lower(), request.headers
        if upgrade == "websocket":
            self._response = websocketclient.response(",".join(headers.getall("Sec-WebSocket-Protocol", [])))
        elif upgrade == spdyclient.UPGRADE.lower():
            self._head = spdyclient.answer(",".join(headers.getall("X-Stream-Protocol-Version", [])))
        else:
            raise refuse("this request needs a connection that changes to SPDY/3.1 or a WebSocket; use kubectl")

    async def change(self, wanted: Wanted) -> Client:
        """Change the protocol. Raises ConnectionError."""
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        if self._response is not None:
            web_socket = WebSocketClient(self._response, wanted)
            await web_socket.begin(self._request)
            return web_socket
        client = SpdyClient(transport, self._request.protocol, wanted)
        await client.begin(self._head)
        return client

    async def left(self) -> web.StreamResponse:
        """The end of the request: no HTTP may follow on a connection that has changed to SPDY. Its loss cancels this."""
        if self._response is not None:
            return self._response
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.get_running_loop().create_future()
        if self._request.transport is not None:
            self._request.transport.abort()
        return web.Response()
