"""The gunicorn worker: uses threads only for reviews, none for idle connections and few for unfinished requests.

Shell. Changes gunicorn 27's threaded worker, partly through private names: the lock file pins its version, and the
tests of this module would notice a change. The changes and their reasons:

* gunicorn gives a new connection to a thread, which waits up to 5 seconds for a first byte: 8 idle connections block
  8 threads. Here the poller waits for that byte.
* A connection that has done its handshake but sent no request (Go's clients open spare ones) would keep its thread.
  Here it goes back to the poller.
* A handshake or request that never ends would keep a thread for ever. Here an exchange is cut after a time, and earlier
  where others wait for a thread. One client's unfinished requests hold few threads.
* At its limit of connections gunicorn accepts none, so that whoever holds as many idle ones keeps probes and API servers
  out. Here an idle connection of the client that has most of them makes room for a new one.
* gunicorn lingers up to 2 seconds when it closes a connection, in the thread that accepts connections. Here the
  connection's own thread lingers, and only if it has sent an answer.
* At shutdown, connections that the kernel has accepted are still served. The listener is closed at once, so that later
  clients are refused and go to another replica instead of waiting.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from selectors import EVENT_READ
from typing import Any, Final

from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker

from router.background.crowding import surplus
from router.startup.settings import EXCHANGE_SECONDS
from router.webhook.receiving import Receiving

LINGER_SECONDS: Final = 0.5
STALLED_SECONDS: Final = 1.0
"""How long a request may take to arrive while others wait. An API server's takes milliseconds."""
LAST_ACCEPTED: Final = 4096
"""Connections that are taken from a port at its end; Linux's default limit of a backlog (``net.core.somaxconn``)."""

_ABSENT: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED})


class Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """A client's connection.

    ``fresh``: only the handshake is done. ``answered``: a response was written. ``sending``: since when a part of it is
    being written, where the worker notes it.
    """

    fresh = False
    answered = False
    closed = False
    sending: float | None = None

    def close(self, graceful: bool = False) -> None:  # noqa: FBT001, FBT002 - gunicorn's own signature
        """Close once; wait for the client's end only if an answer could get lost otherwise."""
        if self.closed:
            return
        self.closed = True
        if graceful and self.answered:
            self.sock.settimeout(LINGER_SECONDS)
            util.close_graceful(self.sock, timeout=LINGER_SECONDS)
        else:
            util.close(self.sock)


class GateWorker(ThreadWorker):  # type: ignore[misc]
    """The threaded worker of gunicorn with the changes named above."""

    exchange_seconds: float = EXCHANGE_SECONDS
    wsgi: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchanges: dict[Connection, float] = {}
        self._lock = threading.Lock()
        self._receiving: Receiving[Connection] = Receiving(max(1, self.cfg.threads // 2))
        self._submitted = 0
        self._here = threading.local()

    def load_wsgi(self) -> None:
        """Load the app, with a wrapper that notes when a request has arrived."""
        super().load_wsgi()
        self.wsgi = partial(self._called, self.wsgi)

    def _called(self, app: Callable[..., Any], environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        received = partial(self._received, self._here.connection)
        if environ.get("CONTENT_LENGTH", "0") == "0" and "HTTP_TRANSFER_ENCODING" not in environ:
            received()
        else:
            environ["wsgi.input"] = _Body(environ["wsgi.input"], received)
        return self.answer(self._here.connection, app, environ, start_response)

    def answer(
        self,
        connection: Connection,  # noqa: ARG002 - for workers that note how it reads
        app: Callable[..., Any],
        environ: dict[str, Any],
        start_response: Callable[..., Any],
    ) -> Any:
        """Call the app."""
        return app(environ, start_response)

    def enqueue_req(self, conn: Connection) -> None:
        """Give a connection with a first byte to a thread, or have it wait until its client may have another one."""
        if self._receiving.begin(conn, conn.client[0]):
            self._submit(conn)

    def _submit(self, conn: Connection) -> None:
        with self._lock:
            self._submitted += 1
        super().enqueue_req(conn)

    def _received(self, conn: Connection) -> None:
        """Its request is there, or will never be: the next one of the client begins. Any thread may call this."""
        if (following := self._receiving.end(conn)) is not None:
            self._submit(following)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle SIGTERM: from now on ``/readyz`` says not ready."""
        self.drain()
        super().handle_exit(sig, frame)

    def drain(self) -> None:
        """Tell the app that it ends."""
        self.app.drain()

    def accept(self, listener: Any) -> None:
        """Accept a connection and wait for its first byte without a thread."""
        self._accept(listener)

    def _accept(self, listener: Any) -> bool:
        """Accept a connection if there is one; whether there was."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise
        while self.nr_conns + 1 >= self.worker_connections and self._give_up_one():
            pass
        self.nr_conns += 1
        connection = Connection(self.cfg, client, address, listener.getsockname())
        connection.timeout = time.monotonic() + self.exchange_seconds
        self.pending_conns.append(connection)
        self.poller.register(client, EVENT_READ, partial(self.on_pending_socket_readable, connection))
        return True

    def _give_up_one(self) -> bool:
        """Close a connection that waits for its client, first one that has never sent a request; whether there was one.

        This keeps the number below the limit at which gunicorn stops accepting. Exchanges in hand go on.
        """
        fresh = [one for one in self.keepalived_conns if one.fresh]
        begun = [one for one in self._receiving.waiting() if not one.answered]  # an API server's is kept
        waiting: Sequence[Connection] = [*fresh, *self.pending_conns, *begun] or self.keepalived_conns
        if not waiting:
            return False
        chosen = waiting[surplus([one.client[0] for one in waiting])]
        if chosen in begun:
            self._give_up_begun(chosen)
            return True
        (self.keepalived_conns if chosen.initialized else self.pending_conns).remove(chosen)
        self.poller.unregister(chosen.sock)
        self._forget(chosen)
        return True

    def _give_up_begun(self, chosen: Connection) -> None:
        """Close a connection that waits to be received, unless a thread has begun with it at this moment."""
        if self._receiving.give_up(chosen):
            self._forget(chosen)

    def _forget(self, chosen: Connection) -> None:
        self.nr_conns -= 1
        chosen.close()

    def on_pending_socket_readable(self, conn: Connection, client: Any) -> None:
        """Begin a handshake, unless the connection was given up after the poller saw its first byte."""
        if not conn.closed:
            super().on_pending_socket_readable(conn, client)

    def on_client_socket_readable(self, conn: Connection, client: Any) -> None:
        """Begin an exchange, unless the connection was given up after the poller saw its first byte."""
        if not conn.closed:
            super().on_client_socket_readable(conn, client)

    def handle(self, conn: Connection) -> Any:
        """Serve one exchange; its time limit starts here."""
        with self._lock:
            self._exchanges[conn] = time.monotonic()
        self._here.connection = conn
        try:
            keep = self._handshaken(conn) and (conn.fresh or super().handle(conn))
        finally:
            with self._lock:
                del self._exchanges[conn]
                self._submitted -= 1
            self._received(conn)
        if not keep:
            conn.close(graceful=True)
        return keep

    def _handshaken(self, conn: Connection) -> bool:
        conn.fresh = False
        if conn.initialized:
            return True
        try:
            conn.sock.setblocking(True)  # noqa: FBT003 - the socket's own signature
            conn.init()
        except OSError as error:
            # Includes SSLErrors. Clients that only disconnect, such as TCP probes, are not logged.
            if isinstance(error, ssl.SSLError) and error.reason:
                self.log.warning("TLS handshake with %s failed: %s", conn.client[0], error.reason)
            return False
        conn.fresh = self.cfg.is_ssl and not conn.sock.pending()
        return True

    def handle_request(self, req: Any, conn: Connection) -> Any:
        """Serve a request whose head was read.

        A connection that began under another certificate or client CA is closed after the answer. Otherwise a client
        of a removed CA could keep its connection, and its access, for ever.
        """
        conn.answered = True
        if self.is_outdated(conn):
            req.force_close()
        return super().handle_request(req, conn)

    def is_outdated(self, conn: Connection) -> bool:
        """Whether another certificate is in force now than when the connection began."""
        return conn.sock.context is not self.cfg.ssl_context(self.cfg, None)

    def is_late(self, connection: Connection, started: float, now: float) -> bool:  # noqa: ARG002 - for other workers
        """Whether an exchange has taken too long."""
        return now - started > self.exchange_seconds

    def is_arriving(self, connection: Connection) -> bool:
        """Whether the connection's request is not there yet."""
        return self._receiving.is_received(connection)

    def murder_pending(self) -> None:
        """Cut exchanges that take too long; called at least once a second."""
        super().murder_pending()
        now = time.monotonic()
        with self._lock:
            short = self._submitted > self.cfg.threads
            for connection, started in self._exchanges.items():
                late = now - started > STALLED_SECONDS and self._receiving.is_in_the_way(connection, short=short)
                if (late and _is_silent(connection.sock)) or self.is_late(connection, started, now):
                    _cut(connection.sock)

    def set_accept_enabled(self, enabled: bool) -> None:  # noqa: FBT001 - gunicorn's own signature
        """Stop accepting; at shutdown, first take connections that the kernel accepted, then close the listeners."""
        super().set_accept_enabled(enabled)
        if not self.alive:
            for listener in self.sockets:
                for _ in range(LAST_ACCEPTED):
                    if not self._accept(listener):
                        break
                listener.close()

    def _cap_keepalive(self, deadline: float) -> None:
        """At shutdown, close connections that have sent no request as early as idle ones."""
        super()._cap_keepalive(deadline)
        for connection in self.pending_conns:
            connection.timeout = min(connection.timeout, deadline)


class _Body:
    """A request's body, as WSGI has it, which says when it was read to its end."""

    def __init__(self, body: Any, received: Callable[[], None]) -> None:
        self._body = body
        self._received = received

    def read(self, size: int | None = None) -> bytes:
        """At most so many bytes, or all; fewer only at the end."""
        data: bytes = self._body.read(size)
        if size is None or len(data) < size:
            self._received()
        return data

    def __getattr__(self, name: str) -> Any:
        """The other ways to read, which do not say it."""
        return getattr(self._body, name)


def _is_silent(sock: socket.socket) -> bool:
    """Whether nothing has come that is still to be read. Otherwise we are the slow ones."""
    found = select.poll()
    try:
        found.register(sock, select.POLLIN)
        return not found.poll(0)
    except (OSError, ValueError):  # closed meanwhile
        return False


def _cut(sock: socket.socket) -> None:
    # Shuts down the plain socket below TLS: this wakes the thread that waits in a read and so ends the exchange.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
