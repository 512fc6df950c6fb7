"""Serves ``/livez``, ``/readyz`` and ``/metrics`` by plain HTTP on a port of their own.

Shell. Probes and Prometheus read these pages without credentials: they hold no secrets, and are read-only. Whoever
reaches the port may open connections without an end, so few are served at once, each for seconds.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from router.agent.metrics import CONTENT_TYPE, Metrics
from router.background.crowding import surplus
from router.errors import ConfigError
from router.startup.settings import Address

log: Final = logging.getLogger("batchgate.agent")

Answer = tuple[int, str, bytes]
_JSON: Final = "application/json"

THREADS: Final = 16
"""Connections at once, a thread for each; a Pod's threads are limited, and its users' jobs need them too."""

_SECONDS: Final = 3.0
"""Seconds for which a client may send or read nothing."""

_PATIENCE_SECONDS: Final = 1.0
"""Seconds within which a connection that is cut has ended."""


def verdict(problem: str, **told: object) -> Answer:
    """The answer to a probe: 200, or 503 with the problem."""
    body = {"ok": not problem, **({"problem": problem} if problem else {}), **told}
    return (503 if problem else 200), _JSON, json.dumps(body).encode() + b"\n"


class _Server(ThreadingHTTPServer):
    """Serves at most ``THREADS`` connections; a further one replaces the oldest of the client that has most."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._places = threading.Semaphore(THREADS)
        self._clients: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        super().__init__((address.host, address.port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or close it if no thread gets free."""
        if not self._places.acquire(blocking=False):
            self._cut_one()
            if not self._places.acquire(timeout=_PATIENCE_SECONDS):
                self.shutdown_request(request)
                return
        with self._lock:
            self._clients[request] = client_address[0]
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            log.warning("the port of probes and metrics closed a connection: %s", error)
            self.shutdown_request(request)
            self._places.release()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def _cut_one(self) -> None:
        """Wake the thread of a connection from its wait; a connection that is being closed is no longer in the list."""
        with self._lock:
            if not self._clients:
                return
            chosen = list(self._clients)[surplus(list(self._clients.values()))]
            del self._clients[chosen]
            with suppress(OSError):
                chosen.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's
        """Log an error of ours in one line; nothing if the client has gone or was cut."""
        error = sys.exception()
        if not isinstance(error, OSError):
            name = type(error).__name__
            log.error("an answer on the port of probes and metrics failed: %s: %s", name, error)


class _Handler(BaseHTTPRequestHandler):
    pages: dict[str, Callable[[], Answer]]
    timeout = _SECONDS
    server_version = "batchgate"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer one request."""
        page = self.pages.get(self.path.partition("?")[0])
        code, kind, body = page() if page else (404, _JSON, b'{"error": "see /livez, /readyz, /metrics"}\n')
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing, as probes come every few seconds."""


@contextmanager
def waiting(address: Address, reason: Callable[[], str]) -> Iterator[None]:
    """Serve, within the block, the probes of a program that lives but is not ready. Raises ConfigError as ``serve``."""
    server = serve(address, live=lambda: verdict(""), ready=lambda: verdict(reason()), metrics=Metrics().text)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def serve(
    address: Address, *, live: Callable[[], Answer], ready: Callable[[], Answer], metrics: Callable[[], bytes]
) -> ThreadingHTTPServer:
    """Serve in a thread of its own until ``shutdown``. Raises ConfigError if it cannot listen on the address."""
    pages = {"/livez": live, "/readyz": ready, "/metrics": lambda: (200, CONTENT_TYPE, metrics())}
    handler = type("Handler", (_Handler,), {"pages": pages})
    try:
        server = _Server(address, handler)
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}; choose another --metrics") from None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    host, port = server.server_address[:2]
    log.info("metrics", extra={"fields": {"address": str(Address(str(host), int(port)))}})
    return server
