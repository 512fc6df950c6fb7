"""Serves ``/livez``, ``/readyz`` and ``/metrics`` by plain HTTP on a port of their own.

Shell. Probes and Prometheus read these pages without credentials: they hold no secrets, and are read-only.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from router.agent.metrics import CONTENT_TYPE, Metrics
from router.errors import ConfigError
from router.startup.settings import Address

log: Final = logging.getLogger("batchgate.agent")

Answer = tuple[int, str, bytes]
_JSON: Final = "application/json"
_SECONDS: Final = 10.0


def verdict(problem: str, **told: object) -> Answer:
    """The answer to a probe: 200, or 503 with the problem."""
    body = {"ok": not problem, **({"problem": problem} if problem else {}), **told}
    return (503 if problem else 200), _JSON, json.dumps(body).encode() + b"\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), handler)


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
