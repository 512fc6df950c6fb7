"""Changes a connection of the HTTP server to a protocol with streams.

Shell (aiohttp).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from aiohttp import web

from router.remotecommand import spdyclient
from router.remotecommand.requests import Wanted
from router.remotecommand.spdyclient import SpdyClient
from router.remotecommand.streams import Client, refuse

_VERSIONS: Final = "X-Stream-Protocol-Version"
_CLOSING: Final = 30.0


class Upgrade:
    """A request to change the protocol. Raises RequestError for one that is not known here."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        upgrade = request.headers.get("Upgrade", "").lower()
        if upgrade != spdyclient.UPGRADE.lower():
            raise refuse("this request needs a connection that changes to SPDY/3.1; use kubectl")
        self._head = spdyclient.answer(",".join(request.headers.getall(_VERSIONS, [])))

    async def change(self, wanted: Wanted) -> Client:
        """Change the protocol. Raises ConnectionError."""
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        client = SpdyClient(transport, self._request.protocol, wanted)
        await client.begin(self._head)
        return client

    async def left(self) -> web.StreamResponse:
        """Wait until the connection is gone, which cancels this: no HTTP may follow on it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.get_running_loop().create_future()
        if self._request.transport is not None:
            self._request.transport.abort()
        return web.Response()
