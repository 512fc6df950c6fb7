"""What the server does with connections, below TLS and HTTP."""

from __future__ import annotations

import gc
import socket
import ssl
import sys
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import web

from router.kubelet.server import Server
from tests.kubelet.site import until

TIMES = 50


async def _answer(_node: str, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response()


def _connect(clients: list[socket.socket], port: int) -> None:
    for client in clients:
        client.connect_ex(("127.0.0.1", port))


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_a_client_that_comes_at_the_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that nobody closes any more would show as a ResourceWarning, which an interpreter only prints."""
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_value))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    for _ in range(TIMES):
        server = Server(_answer, tls, 10)
        server.start()
        port = server.listen("127.0.0.1", 0)
        with ExitStack() as stack:
            clients = [stack.enter_context(socket.socket()) for _ in range(3)]
            coming = threading.Thread(target=_connect, args=(clients, port))
            coming.start()
            server.stop()
            coming.join()
    gc.collect()

    assert lost == []


def test_of_a_flood_no_more_than_the_limit_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.kubelet.server.HANDSHAKE_SECONDS", 600)  # none is closed for its handshake
    server = Server(_answer, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), 10)
    server.start()
    ports = [server.listen("127.0.0.1", 0, node) for node in ("a", "b")]
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", ports[n % 2]))) for n in range(200)]
        until(lambda: sum(map(_is_closed, clients)) >= 190)
        still_open = 200 - sum(map(_is_closed, clients))
        server.stop()

    assert still_open == 10
