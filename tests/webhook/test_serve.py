"""Certificates that change, and the end: over real gunicorn with real TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from router.certs.files import write_all
from router.errors import ConfigError
from router.startup.settings import Address
from router.webhook import serve
from router.webhook.app import LARGEST_IN_TURN
from router.webhook.service import LARGE_AT_ONCE
from tests.webhook.servers import Pki, Server, exchange, until

Start = Callable[..., Server]


def _serial(server: Server) -> int:
    with closing(server.connect()) as connection:
        certificate = connection.sock.getpeercert(binary_form=True)
        assert isinstance(certificate, bytes)
        return x509.load_der_x509_certificate(certificate).serial_number


def _serial_of(pem: bytes) -> int:
    return x509.load_pem_x509_certificate(pem).serial_number


def _await_certificate(server: Server, pem: bytes) -> None:
    until(lambda: _serial(server) == _serial_of(pem))


def _await_answers(answers: list[list[int]], asking: list[Future[None]], *, each: int, together: int) -> None:
    """Wait for so many answers, or for a client that has failed."""

    def counted() -> bool:
        return min(map(len, answers)) >= each and sum(map(len, answers)) >= together

    until(lambda: counted() or any(one.done() for one in asking), 60)


def test_a_new_certificate_is_taken_up_without_a_failed_request(start: Start, pki: Pki) -> None:
    server = start()
    stop = threading.Event()

    answers: list[list[int]] = [[] for _ in range(4)]

    def ask(mine: list[int]) -> None:
        kept = server.connect()
        while not stop.is_set():
            mine.append(exchange(kept, "POST", "/mutate", b'{"uid": "kept"}')[0])
            mine.append(server.review(uid="new")[0])
        kept.close()

    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(ask, mine) for mine in answers]
        try:
            for number in range(1, 4):
                pair = pki.issue("localhost")
                pki.put(pair)
                _await_certificate(server, pair.public)
                # Each client goes on asking while this one is in force, on its kept connection and on new ones.
                _await_answers(answers, asking, each=8 * number, together=0)
            _await_answers(answers, asking, each=0, together=101)
        finally:
            stop.set()
        for one in asking:
            one.result()

    assert {status for mine in answers for status in mine} == {200}
    assert sum(map(len, answers)) > 100
    assert server.process.poll() is None


@pytest.mark.parametrize("wrong", ["key", "expired", "host", "rubbish", "gone"])
def test_a_certificate_that_is_wrong_is_not_taken(start: Start, pki: Pki, wrong: str) -> None:
    server = start()
    before = _serial(server)
    other = pki.issue("localhost")
    expected = {
        "key": "do not belong together",
        "expired": "expired at",
        "host": "is for elsewhere, not for localhost",
        "rubbish": "holds no certificate in PEM form",
        "gone": "does not exist",
    }[wrong]
    if wrong == "key":
        write_all(pki.directory, {pki.certificate.name: other.public})
    elif wrong == "expired":
        pki.put(pki.issue("localhost", now=datetime.now(UTC) - timedelta(days=5), days=1))
    elif wrong == "host":
        pki.put(pki.issue("elsewhere"))
    elif wrong == "rubbish":
        write_all(pki.directory, {pki.certificate.name: b"rubbish"})
    else:
        pki.certificate.unlink()

    until(lambda: expected in _errors(server).get("certificate", ""))

    assert server.ask("GET", "/readyz")[0] == 200
    assert _serial(server) == before
    assert server.metrics()['batchgate_source_broken{source="certificate"}'] == 1
    said = [line["error"] for line in server.logged("reload failed; the last good one stays in force")]
    assert server.metrics()['batchgate_reload_failures_total{source="certificate"}'] == len(said)
    assert expected in said.pop()
    # Of a pair that is exchanged, one file for the other, each half may have been seen.
    assert len(said) <= (wrong in {"expired", "host"})
    assert all("do not belong together" in error for error in said)

    pki.put(other)
    _await_certificate(server, other.public)
    until(lambda: _errors(server) == {})
    expiry = x509.load_pem_x509_certificate(other.public).not_valid_after_utc.timestamp()
    assert server.metrics()["batchgate_certificate_expiry_timestamp_seconds"] == expiry


def _errors(server: Server) -> dict[str, str]:
    errors = json.loads(server.ask("GET", "/readyz")[2])["errors"]
    assert isinstance(errors, dict)
    return errors


def test_sigterm_finishes_what_is_in_flight_and_refuses_the_rest(start: Start, tmp_path: Path) -> None:
    server = start("--exchange", "90", "--linger", "60")
    go = tmp_path / "go"
    (worker,) = until(server.children)
    kept = server.connect()
    assert exchange(kept, "GET", "/readyz")[0] == 200
    with ThreadPoolExecutor(4) as clients, contextlib.ExitStack() as stack:
        stack.callback(go.touch)
        slow = [clients.submit(server.review, uid=f"slow-{number}", until=str(go)) for number in range(4)]
        until(lambda: server.metrics()["batchgate_reviews_in_flight"] == 4)

        server.process.send_signal(signal.SIGTERM)
        until(lambda: _is_refused(server.port))
        late = exchange(kept, "GET", "/readyz")
        go.touch()

        assert [one.result()[0] for one in slow] == [200] * 4
    assert (late[0], json.loads(late[2])["draining"], late[1]["connection"]) == (503, True, "close")
    assert server.process.wait(30) == 0
    assert {line["uid"] for line in server.logged("decision")} >= {f"slow-{number}" for number in range(4)}
    assert server.log_file.read_text().endswith("\n")
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def _is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_the_kernel_had_accepted_is_still_answered(start: Start, tmp_path: Path) -> None:
    server = start("--threads", "1", "--exchange", "90", "--linger", "60")
    go = tmp_path / "go"
    until(server.children)
    with ThreadPoolExecutor(11) as clients, contextlib.ExitStack() as stack:
        stack.callback(server.process.wait, 60)
        stack.callback(go.touch)
        slow = clients.submit(server.review, uid="slow", until=str(go))
        until(lambda: server.logged("began"))
        # These wait behind the one thread; their handshakes begin while SIGTERM arrives.
        waiting = [clients.submit(server.review, uid=f"waiting-{number}") for number in range(10)]
        until(lambda: _connections(server.port) >= 11)

        server.process.send_signal(signal.SIGTERM)
        until(lambda: _is_refused(server.port))
        go.touch()

        assert {one.result()[0] for one in [slow, *waiting]} == {200}
    assert server.process.wait(30) == 0


def _connections(port: int) -> int:
    """Established connections to this port, as the kernel counts them on the server's side."""
    with open("/proc/net/tcp", encoding="ascii") as table:  # noqa: PTH123
        return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in table)


def test_idle_clients_do_not_delay_the_end(start: Start) -> None:
    server = start("--exchange", "60")
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            stack.enter_context(closing(server.connect()))
        server.review(uid="1")

        server.process.send_signal(signal.SIGTERM)

        assert server.process.wait(40) == 0


def test_hangup_starts_a_new_worker_on_the_same_port(start: Start) -> None:
    server = start()
    (worker,) = until(server.children)
    server.review(uid="before")

    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.children() and worker not in server.children())

    assert server.review(uid="after")[0] == 200
    assert server.terminate() == 0


def test_ipv6_and_a_free_port(start: Start) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 on this machine")
    server = start("--listen", "[::1]:0")

    assert server.address.startswith("[::1]:")
    assert server.review(uid="1")[0] == 200


def test_no_host_is_every_address() -> None:
    with closing(serve.bind(Address("", 0))) as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_port_in_use_is_one_sentence() -> None:
    with closing(serve.bind(Address("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigError) as caught:
            serve.bind(Address("127.0.0.1", port))

    assert str(caught.value) == (f"cannot listen on 127.0.0.1:{port}: address already in use; choose another --listen")


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_one_sentence(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        serve.bind(Address(host, 0))


def test_gunicorns_remote_control_is_off(start: Start) -> None:
    server = start()
    server.review(uid="1")

    own = {inode for pid in (server.process.pid, *server.children()) for inode in _sockets(pid)}
    table = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]

    assert own
    assert [row for row in table if row[6] in own and len(row) > 7] == [], "a socket with a name"


def _sockets(pid: int) -> list[str]:
    """The inodes of a process's sockets."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return [link[len("socket:[") : -1] for link in found if link.startswith("socket:[")]


def test_large_reviews_leave_threads_and_time_to_small_ones(start: Start) -> None:
    server = start("--exchange", "600")
    body = json.dumps({"uid": "large", "until": "/nowhere", "padding": "x" * LARGEST_IN_TURN}).encode()
    refused: list[tuple[int, str | None, bytes]] = []

    def ask() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):  # those that wait are cut off at the end
            status, headers, answer = server.ask("POST", "/mutate", body)
            refused.append((status, headers.get("retry-after"), answer))

    with ThreadPoolExecutor(16) as clients:
        try:
            for _ in range(16):
                clients.submit(ask)
            until(lambda: len(refused) == 16 - LARGE_AT_ONCE)
            small = [server.review(uid=f"small-{number}")[0] for number in range(10)]
            began = len(until(lambda: server.logged("began")))
        finally:
            server.end()

    assert small == [200] * 10
    assert began == 1
    error = "this review is larger than 256 KiB, and 3 that are large or take long are in hand already; ask again"
    assert set(refused) == {(429, "1", json.dumps({"error": error}).encode() + b"\n")}
