"""An HTTPS server: accepts and limits connections and calls a handler, in one thread with an event loop.

Shell: sockets, TLS, HTTP by aiohttp. A connection serves one request, so that none stays idle and every answer
meets an open connection. Each handshake and each request's head has a time limit, and blocks no other
connection. When there are too many connections, a new one replaces one whose caller is unknown. A new TLS context
applies from the next connection on.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from router.background.crowding import surplus
from router.errors import ConfigError
from router.values import unchanging

log: Final = logging.getLogger("batchgate.kubelet")

HANDSHAKE_SECONDS: Final = 10.0
"""Limit of a TLS handshake, which takes a few round trips, and of the wait for its first byte."""

HEAD_SECONDS: Final = 10.0
"""From the end of the handshake to the end of a request's head."""

HEAD_LINES: Final = 64
HEAD_FIELD_BYTES: Final = 16 * 1024
"""The longest header: an identity provider's token contains all groups of its user."""

CONNECTIONS: Final = 600
"""Connections at once, including handshakes; more than the streams, so that further requests are still served."""

BACKLOG: Final = 4096
"""Connections that the kernel accepts ahead: those of a flood, which must not keep others from arriving."""

ACCEPTED_AT_ONCE: Final = 64
"""Connections accepted before others are served again."""

ADMITTED: Final = web.RequestKey("admitted", bool)
"""Set in a request by its handler once its caller is known and allowed: it then keeps its connection."""

CALL_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 0.2
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# A peer that has disappeared silently is noticed after 70 seconds.
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)

Handler = Callable[[str, web.BaseRequest], Awaitable[web.StreamResponse]]
"""Answers a request that came to the port of this Node (empty: the port of all Nodes)."""

T = TypeVar("T")


@unchanging
class _Stranger:
    """A connection whose caller is unknown: the client's address, and what closes the connection."""

    address: str
    close: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Handshake:
    """A handshake that goes on."""

    connection: web.RequestHandler
    client: socket.socket
    address: str


@dataclass(frozen=True, slots=True)
class _Listener:
    """A port."""

    socket: socket.socket
    accepting: asyncio.Task[None]


class Server:
    """The HTTPS server, with ``start`` and ``stop``.

    :param handle: called in the server's thread; cancelled when the client disconnects
    :param context: the TLS context until ``use`` replaces it
    :param connections: the most open connections
    """

    def __init__(self, handle: Handler, context: ssl.SSLContext, connections: int) -> None:
        self._handle = handle
        self._context = context
        self._connections = connections
        self._listeners: dict[str, _Listener] = {}
        self._http: dict[str, web.Server] = {}
        self._handshakes: dict[asyncio.Task[None], _Handshake] = {}
        self._requests: dict[web.RequestHandler, web.BaseRequest] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubelet-api", daemon=True)

    def start(self) -> None:
        """Start the thread; ``listen`` opens ports."""
        self._thread.start()

    def use(self, context: ssl.SSLContext) -> None:
        """Serve new connections with this context."""
        self._context = context

    def listen(self, host: str, port: int, node: str = "") -> int:
        """Listen for a Node's requests; returns the port, a free one for 0.

        :param host: address to bind; empty for all
        :raises ConfigError: the port is taken, or the address is not this machine's
        """
        return self.call(self._listen(host, port, node))

    def unlisten(self, node: str = "") -> None:
        """Stop listening for this Node; open requests go on."""
        self.call(self._unlisten(node))

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Cut all connections and end the thread."""
        if not self._thread.is_alive():
            return
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the server's thread, from another one."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(CALL_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _listen(self, host: str, port: int, node: str) -> int:
        if node in self._listeners:
            raise ConfigError(f"the kubelet API listens for node {node or '*'} already")
        listening = _bound(host, port)
        http = self._http.setdefault(node, self._new_http(node))
        self._listeners[node] = _Listener(listening, self._loop.create_task(self._accept(listening, http)))
        return int(listening.getsockname()[1])

    def _new_http(self, node: str) -> web.Server:
        return web.Server(
            partial(self._answer, node),
            handler_cancellation=True,
            keepalive_timeout=HEAD_SECONDS,  # aiohttp counts it for the first head too
            lingering_time=1.0,
            max_headers=HEAD_LINES,
            max_field_size=HEAD_FIELD_BYTES,
            access_log=None,
            logger=_quiet_logger(),
        )

    async def _answer(self, node: str, request: web.BaseRequest) -> web.StreamResponse:
        self._requests = {one: asked for one, asked in self._requests.items() if one.transport is not None}
        self._requests[request.protocol] = request
        return await self._handle(node, request)

    async def _unlisten(self, node: str) -> None:
        listener = self._listeners.pop(node, None)
        if listener is not None:
            listener.accepting.cancel()
            await asyncio.wait([listener.accepting])
            listener.socket.close()

    async def _stop(self) -> None:
        for node in list(self._listeners):
            await self._unlisten(node)
        for handshake in self._handshakes:
            handshake.cancel()
        for http in self._http.values():
            for connection in http.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await http.shutdown(_STOP_SECONDS)
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    async def _accept(self, listening: socket.socket, http: web.Server) -> None:
        while True:
            await self._readable(listening)
            try:
                for _ in range(ACCEPTED_AT_ONCE):
                    self._begin(*listening.accept(), http)
            except OSError as error:
                if error.errno in _FULL:
                    log.warning("the kubelet API takes no connection for a second: %s", error.strerror)
                    await asyncio.sleep(1)

    def _begin(self, client: socket.socket, address: tuple[Any, ...], http: web.Server) -> None:
        client.setblocking(False)  # noqa: FBT003 - the socket's own signature
        if self._open() >= self._connections and not self._make_room():
            client.close()
            return
        connection = http()
        task = self._loop.create_task(self._connect(client, address, connection))
        self._handshakes[task] = _Handshake(connection, client, address[0])
        task.add_done_callback(self._end_of_handshake)

    async def _readable(self, waited: socket.socket) -> None:
        """Wait for a client, or its first byte. The loop's ``sock_accept`` would lose a client that arrives while it is cancelled."""
        readable: asyncio.Future[None] = self._loop.create_future()

        def found() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(waited, found)
        try:
            await readable
        finally:
            self._loop.remove_reader(waited)

    def _end_of_handshake(self, task: asyncio.Task[None]) -> None:
        ended = self._handshakes.pop(task)
        if task.cancelled() and ended.connection.transport is None:
            ended.client.close()  # a task that was cancelled before its first step has closed nothing

    def _open(self) -> int:
        established = sum(len(http.connections) for http in self._http.values())
        return established + sum(one.connection.transport is None for one in self._handshakes.values())

    def _make_room(self) -> bool:
        """Close a connection without a known caller; False if there is none."""
        strangers = self._strangers()
        if not strangers:
            return False
        strangers[surplus([one.address for one in strangers])].close()
        return True

    def _strangers(self) -> list[_Stranger]:
        """The connections without a known caller: those with a handshake done, then others, each the oldest first."""
        shaken = [
            _Stranger((transport.get_extra_info("peername") or ("",))[0], transport.abort)
            for http in self._http.values()
            for one in http.connections
            if (transport := one.transport) is not None and not transport.is_closing() and not self._is_admitted(one)
        ]
        return shaken + [
            _Stranger(one.address, task.cancel)
            for task, one in self._handshakes.items()
            if one.connection.transport is None and not task.cancelling()
        ]

    def _is_admitted(self, connection: web.RequestHandler) -> bool:
        request = self._requests.get(connection)
        return request is not None and request.get(ADMITTED, False)

    async def _connect(self, client: socket.socket, address: tuple[Any, ...], connection: web.RequestHandler) -> None:
        try:
            for option in _KEEPALIVE:
                client.setsockopt(*option)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._readable(client)  # TLS takes memory and time, so it begins after a byte
            await self._loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=1.0,
            )
        except OSError as error:
            client.close()
            # Includes SSLErrors. Clients that only disconnect, such as probes of the port, are not logged.
            if isinstance(error, ssl.SSLError) and error.reason:
                log.warning("TLS handshake with %s failed: %s", address[0], error.reason.lower().replace("_", " "))


def _bound(host: str, port: int) -> socket.socket:
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        listening = socket.create_server(
            ("::" if both else host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"the kubelet API cannot listen on {host or '*'}:{port}: {reason}") from None
    listening.settimeout(0)
    return listening


def _quiet_logger() -> logging.Logger:
    """The logger for aiohttp, which drops records about invalid HTTP requests."""
    logger = logging.getLogger("batchgate.kubelet.http")
    if not logger.filters:
        logger.addFilter(_without_bad_requests)
    return logger


def _without_bad_requests(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)
