"""The gunicorn worker: uses threads only for reviews, and none for idle connections.

Shell. Changes gunicorn 27's threaded worker, partly through private names: the lock file pins its version, and the
tests of this module would notice a change. The changes and their reasons:

* gunicorn gives a new connection to a thread, which waits up to 5 seconds for a first byte: 8 idle connections block
  8 threads. Here the poller waits for that byte.
* A connection that has done its handshake but sent no request (Go's clients open spare ones) would keep its thread.
  Here it goes back to the poller.
* A handshake or request that never ends would keep a thread for ever. Here an exchange is cut after a time.
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
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from functools import partial
from selectors import EVENT_READ
from typing import Any, Final

from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker

from router.background.crowding import surplus
from router.startup.settings import EXCHANGE_SECONDS

LINGER_SECONDS: Final = 0.5
LAST_ACCEPTED: Final = 4096
"""Connections that are taken from a port at its end; Linux's default limit of a backlog (``net.core.somaxconn``)."""

_ABSENT: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED})


class Connection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """A client's connection.

    ``fresh``: only the handshake is done. ``answered``: a response was written.
    """

    fresh = False
    answered = False
    closed = False

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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exchanges: dict[Connection, float] = {}
        self._lock = threading.Lock()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handle SIGTERM: from now on ``/readyz`` says not ready."""
        self.app.drain()
        super().handle_exit(sig, frame)

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
        waiting: Sequence[Connection] = [*fresh, *self.pending_conns] or self.keepalived_conns
        if not waiting:
            return False
        chosen = waiting[surplus([one.client[0] for one in waiting])]
        (self.keepalived_conns if chosen.initialized else self.pending_conns).remove(chosen)
        self.poller.unregister(chosen.sock)
        self.nr_conns -= 1
        chosen.close()
        return True

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
        try:
            keep = self._handshaken(conn) and (conn.fresh or super().handle(conn))
        finally:
            with self._lock:
                del self._exchanges[conn]
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
        conn.fresh = not conn.sock.pending()
        return True

    def handle_request(self, req: Any, conn: Connection) -> Any:
        """Serve a request whose head was read.

        A connection that began under another certificate or client CA is closed after the answer. Otherwise a client
        of a removed CA could keep its connection, and its access, for ever.
        """
        conn.answered = True
        if conn.sock.context is not self.cfg.ssl_context(self.cfg, None):
            req.force_close()
        return super().handle_request(req, conn)

    def murder_pending(self) -> None:
        """Cut exchanges that take too long; called at least once a second."""
        super().murder_pending()
        latest = time.monotonic() - self.exchange_seconds
        with self._lock:
            for connection, started in self._exchanges.items():
                if started < latest:
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


def _cut(sock: socket.socket) -> None:
    # Shuts down the plain socket below TLS: this wakes the thread that waits in a read and so ends the exchange.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
