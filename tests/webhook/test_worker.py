"""Clients that hold connections, and what the rest of the world notices of them: nothing."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.webhook.servers import Server, exchange, until

Start = Callable[..., Server]
CLIENT_HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01"


@pytest.fixture
def held() -> Iterator[Callable[[Server, bytes], socket.socket]]:
    """Open a plain connection, send these bytes and keep it."""
    with ExitStack() as stack:

        def hold(server: Server, first: bytes, source: str = "127.0.0.1") -> socket.socket:
            to = ("127.0.0.1", server.port)
            client = stack.enter_context(socket.create_connection(to, timeout=60, source_address=(source, 0)))
            client.sendall(first)
            return client

        yield hold


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(60)
    try:
        while client.recv(4096):
            pass
    except ConnectionResetError:
        return True
    return True


def _ends(client: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_fifty_idle_connections_stop_nobody(start: Start, held: Callable[[Server, bytes], socket.socket]) -> None:
    server = start("--exchange", "30")
    clients = [held(server, b"") for _ in range(50)]

    started = time.monotonic()
    answers = [server.review(uid=str(number))[0] for number in range(20)]

    assert answers == [200] * 20
    # Were each idle client given one of the 8 threads for 5 seconds, the first answer would take 30.
    assert time.monotonic() - started < 25
    assert len(clients) == 50


@pytest.mark.parametrize("sources", [1, 50])
def test_a_flood_of_idle_connections_stops_nobody(
    start: Start, held: Callable[..., socket.socket], sources: int
) -> None:
    """Reviews, probes and a connection that is kept are served with far more connections than the worker takes."""
    server = start("--exchange", "60", "--connections", "100")
    with closing(server.connect()) as kept:
        before = exchange(kept, "POST", "/mutate", b'{"uid": "before"}')[0]
        statuses = []
        seconds = []
        for _ in range(15):
            clients = [held(server, b"", f"127.0.1.{number % sources + 1}") for number in range(50)]
            started = time.monotonic()
            statuses += [server.review(uid="new")[0], server.ask("GET", "/readyz")[0], server.ask("GET", "/livez")[0]]
            seconds.append(time.monotonic() - started)
        after = exchange(kept, "POST", "/mutate", b'{"uid": "after"}')[0]

    assert (before, set(statuses), after) == (200, {200}, 200)
    assert max(seconds) < 10, "an idle connection has its place for 60"
    assert not _ends(clients[-1]), "the newest still has its place"


def test_a_flood_of_handshakes_without_a_request_stops_nobody(start: Start) -> None:
    """Such a connection is idle too, and makes room before one that is kept after a request."""
    server = start("--connections", "20")
    with ExitStack() as stack:
        kept = stack.enter_context(closing(server.connect()))
        before = exchange(kept, "POST", "/mutate", b'{"uid": "before"}')[0]
        for _ in range(40):
            stack.enter_context(closing(server.connect()))

        assert server.review(uid="new")[0] == 200
        assert (before, exchange(kept, "POST", "/mutate", b'{"uid": "after"}')[0]) == (200, 200)


def test_an_end_in_a_flood_is_orderly(start: Start, held: Callable[..., socket.socket]) -> None:
    server = start("--exchange", "60", "--connections", "20")
    clients = [held(server, b"") for _ in range(100)]

    assert server.review(uid="1")[0] == 200
    assert server.terminate() == 0
    assert all(_is_closed(client) for client in clients)


def test_an_idle_connection_is_closed_in_the_end(start: Start, held: Callable[[Server, bytes], socket.socket]) -> None:
    server = start("--exchange", "0.5")

    assert _is_closed(held(server, b""))


def test_handshakes_that_never_end_are_cut(start: Start, held: Callable[[Server, bytes], socket.socket]) -> None:
    server = start("--exchange", "3")
    clients = [held(server, CLIENT_HELLO_BEGINS) for _ in range(16)]

    assert server.review(uid="1")[0] == 200
    assert all(_is_closed(client) for client in clients)


def test_requests_that_never_end_are_cut(start: Start) -> None:
    server = start("--exchange", "3")
    with ExitStack() as stack:
        for _ in range(16):
            slow = stack.enter_context(closing(server.connect()))
            slow.putrequest("POST", "/mutate")
            slow.putheader("Content-Length", "1000")
            slow.endheaders(b"{")

        assert server.review(uid="1")[0] == 200


@pytest.mark.parametrize("sources", [1, 30])
def test_a_flood_of_handshakes_that_never_end_stops_nobody(
    start: Start, held: Callable[..., socket.socket], sources: int
) -> None:
    """Reviews and probes are answered, whatever number of connections have begun and how many clients they come from."""
    server = start("--exchange", "60", "--connections", "100")
    seconds = []
    statuses = []
    for _ in range(6):
        for number in range(50):
            held(server, CLIENT_HELLO_BEGINS, f"127.0.1.{number % sources + 1}")
        started = time.monotonic()
        statuses += [server.review(uid="new")[0], server.ask("GET", "/readyz")[0], server.ask("GET", "/livez")[0]]
        seconds.append(time.monotonic() - started)

    assert set(statuses) == {200}
    assert max(seconds) < 30, "each has its thread for 60, or for 1 while others wait"


def test_unfinished_requests_of_one_client_stop_nobody(start: Start) -> None:
    server = start("--exchange", "60")
    with ExitStack() as stack:
        begun = [stack.enter_context(closing(server.connect(source="127.0.0.2"))) for _ in range(40)]
        for number, slow in enumerate(begun):
            slow.putrequest("POST", "/mutate")
            slow.putheader("Content-Length", "1000")
            slow.endheaders(b"{" * number)

        started = time.monotonic()
        assert [server.review(uid=str(number))[0] for number in range(20)] == [200] * 20
        assert time.monotonic() - started < 30


def test_plain_http_and_rubbish_do_not_hold_up_others(
    start: Start, held: Callable[[Server, bytes], socket.socket]
) -> None:
    server = start("--exchange", "30")
    clients = [held(server, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(25)]
    clients += [held(server, b"\x00" * 64) for _ in range(25)]

    started = time.monotonic()
    assert server.review(uid="1")[0] == 200
    # Lingering over each of the 50 connections in the accepting thread would take 2 seconds a client.
    assert time.monotonic() - started < 40
    assert all(_is_closed(client) for client in clients)


def test_a_worker_that_dies_is_started_again(start: Start) -> None:
    server = start()
    (worker,) = until(server.children)
    server.review(uid="before")

    os.kill(worker, signal.SIGKILL)

    assert until(lambda: [child for child in server.children() if child != worker])
    assert server.review(uid="after")[0] == 200


def test_more_clients_than_threads_are_all_answered(start: Start) -> None:
    server = start("--threads", "2")
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(server.connect())) for _ in range(30)]
        answers = [exchange(client, "POST", "/mutate", b'{"uid": "1"}')[0] for client in clients for _ in range(2)]

        assert answers == [200] * 60
