"""Clients that hold connections of the page, and what its other viewers notice of them: nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.page.served import PAGES, STREAMS
from tests.processes import started

THREADS = PAGES + STREAMS
Connect = Callable[[bytes], socket.socket]
HEAD = b"HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("page")
    argv = (sys.executable, "-m", "tests.page.served", str(directory))
    with started(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@pytest.fixture
def connect(port: int) -> Iterator[Connect]:
    """Open a connection, send these bytes and keep it."""
    with ExitStack() as stack:

        def hold(first: bytes) -> socket.socket:
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            client.sendall(first)
            return client

        yield hold


def ask(port: int, path: str) -> tuple[int, bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as client:
        client.request("GET", path)
        answer = client.getresponse()
        return answer.status, answer.read()


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    return True


def is_cut(client: socket.socket, request: bytes) -> bool:
    """Whether the server ends a connection that sends this again and again, and never reads."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            client.send(request)
        except TimeoutError:
            continue
        except OSError:
            return True
        time.sleep(0.002)  # each request comes alone, as from a client that would read
    return False


def ends_unread(client: socket.socket) -> bool:
    """Whether the server ends an answer without an end, of which a client reads a little after long pauses."""
    client.settimeout(1)
    for _ in range(20):
        time.sleep(3)  # it may have begun only now: other answers had the threads
        try:
            if not all(client.recv(1 << 20) for _ in range(16)):
                return True
        except TimeoutError:
            continue
        except ConnectionResetError:
            return True
    return False


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (b"", 10 * THREADS),
        (b"GET / " + HEAD, 2 * THREADS),
        (b"GET / " + HEAD, 10 * THREADS),
        (b"POST /enter " + HEAD + b"Content-Length: 1000\r\n\r\ntoken=", 2 * THREADS),
    ],
    ids=["idle", "headers", "many headers", "bodies"],
)
def test_connections_that_send_nothing_more_stop_nobody(connect: Connect, port: int, first: bytes, count: int) -> None:
    clients = [connect(first) for _ in range(count)]

    assert ask(port, "/static/page.css")[0] == 200
    assert all(is_closed(client) for client in clients)


def test_headers_that_come_a_byte_at_a_time_are_cut(connect: Connect, port: int) -> None:
    clients = [connect(b"GET / " + HEAD + b"X-") for _ in range(2 * THREADS)]
    with pytest.raises(OSError):  # noqa: PT011, PT012 - the server closes it: a reset, or a broken pipe
        for _ in range(600):
            for client in clients:
                client.sendall(b"x")
            ask(port, "/static/page.css")

    assert ask(port, "/static/page.css")[0] == 200


def test_answers_that_are_never_read_are_cut(connect: Connect, port: int) -> None:
    clients = [connect(b"GET /static-flood " + HEAD + b"\r\n") for _ in range(THREADS)]

    assert ask(port, "/static/page.css")[0] == 200
    assert ends_unread(clients[0])


def test_answers_without_a_body_that_are_never_read_are_cut(port: int) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.settimeout(0.1)
        client.connect(("127.0.0.1", port))

        assert is_cut(client, b"HEAD /static/page.css " + HEAD + b"\r\n")


def test_a_page_that_takes_long_to_make_is_not_cut(port: int) -> None:
    assert ask(port, "/static-slow") == (200, b"made")
