"""Many followers at once, slow ones, ones that go away; and what a log's size costs."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kubelet.site import TOKEN, Served, client_tls, served, until

ROOT = Path(__file__).parents[2]
FOLLOW = "/containerLogs/ada/pod/main?follow=true"
MIB = 1 << 20


def test_a_hundred_followers_get_each_line_while_it_is_new(api: Served) -> None:
    pod = api.site.running(content=b"early\n")
    with ExitStack() as stack:
        answers = [stack.enter_context(api.asking(FOLLOW)) for _ in range(100)]
        for line in (b"early\n", b"late\n", b"later\n"):
            if line != b"early\n":
                api.site.append(pod, line)
            assert [answer.readline() for answer in answers] == [line] * 100
        api.site.append(pod, b"last words")
        api.site.end(pod)
        assert {answer.read() for answer in answers} == {b"last words"}

    assert [thread.name for thread in threading.enumerate()].count("kubelet-api") == 1


def test_who_does_not_read_stops_nobody(api: Served) -> None:
    """Their connections are full after a while; the rest of the log waits in the file."""
    pod = api.site.running(content=(b"x" * 999 + b"\n") * 20_000)
    with ExitStack() as stack:
        stuck = [stack.enter_context(api.asking(FOLLOW)) for _ in range(20)]

        with api.asking(f"{FOLLOW}&tailLines=1") as answer:
            assert answer.readline() == b"x" * 999 + b"\n"
            api.site.append(pod, b"late\n")
            assert answer.readline() == b"late\n"
        assert api.ask("/healthz") == (200, b"ok")

        api.site.end(pod)
        assert len(stuck[0].read()) == 20_000_005


def test_a_follower_that_goes_away_gives_its_place_back(tmp_path: Path) -> None:
    with served(tmp_path, streams=2) as api:
        api.site.running(content=b"early\n")
        api.site.running(content=b"early\n", namespace="bob")
        with api.asking(FOLLOW) as answer:
            assert answer.readline() == b"early\n"
            assert api.logs("follow=true") == (
                429,
                (
                    b'1 logs of namespace "ada" are being read at once, which is the limit for one; '
                    b"end some of them, or try again later"
                ),
            )
            assert api.logs()[0] == 429
            with api.asking("/containerLogs/bob/pod/main?follow=true") as other:
                assert other.readline() == b"early\n"

        until(lambda: api.logs() == (200, b"early\n"))
        until(lambda: api.logs(pod="bob/pod") == (200, b"early\n"))


def test_a_follower_that_is_stuck_for_hours_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.kubelet.answering.STUCK_SECONDS", 0.5)
    with served(tmp_path) as api:
        api.site.running(content=b"x" * 30 * MIB)
        with api.asking(FOLLOW) as answer:
            until(lambda: not api.kubelet._server._open(), seconds=60)
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()


def test_a_log_that_cannot_be_read_to_its_end_does_not_look_whole(api: Served) -> None:
    pod = api.site.ended(content=b"x" * 30 * MIB)
    with api.asking("/containerLogs/ada/pod/main") as answer:
        Path(pod.directory.log("main")).unlink()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()


class Alone:
    """A kubelet API in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int, directory: Path) -> None:
        self.process = process
        self.port = port
        self.log = next((directory / "site").rglob("main.0"))
        self.tls = client_tls(directory)

    def ask(self, query: str) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        tls = self.tls.wrap_socket(plain)
        path = f"/containerLogs/ada/pod/main?{query}"
        tls.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        return tls

    def memory(self, name: str) -> int:
        """Bytes of ``VmRSS`` or ``VmHWM``."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.kubelet.alone", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        yield Alone(process, int(process.stdout.readline()), tmp_path)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def drained(connection: ssl.SSLSocket) -> tuple[int, bytes]:
    """How many bytes came, and the last of them."""
    count, last = 0, b""
    with contextlib.closing(connection):
        while data := connection.recv(1 << 17):
            count += len(data)
            last = (last + data)[-200:]
    return count, last


def test_a_log_of_five_gigabytes_takes_no_memory(alone: Alone) -> None:
    assert drained(alone.ask("limitBytes=1"))[0] > 0  # whatever a first request loads
    with alone.log.open("r+b") as file:
        file.truncate(5 << 30)
    with alone.log.open("ab") as file:
        file.write(b"\none\ntwo\n")
    before = alone.memory("VmRSS")

    assert b"\r\none\ntwo\n\r\n" in drained(alone.ask("tailLines=2"))[1]
    assert drained(alone.ask(f"limitBytes={100 * MIB}"))[0] > 100 * MIB
    assert drained(alone.ask(f"limitBytes={20 * MIB}&timestamps=true&sinceSeconds=3600"))[0] > 20 * MIB
    assert b"\r\ntwo\n\r\n" in drained(alone.ask("tailLines=1&timestamps=false&sinceSeconds=3600"))[1]

    assert alone.memory("VmHWM") - before < 30 * MIB


def test_a_follower_takes_less_than_a_megabyte(alone: Alone) -> None:
    """Also one that does not read while the log grows."""
    alone.ask("limitBytes=1").close()
    before = alone.memory("VmRSS")
    with ExitStack() as stack:
        followers = [stack.enter_context(contextlib.closing(alone.ask("follow=true"))) for _ in range(100)]
        for follower in followers:
            assert follower.recv(15) == b"HTTP/1.1 200 OK"
        with alone.log.open("ab") as file:
            for _ in range(20):
                file.write(b"x" * (MIB - 1) + b"\n")
        reader = followers.pop()
        received = 0
        while received < 20 * MIB:
            received += len(reader.recv(1 << 17))

        assert alone.memory("VmRSS") - before < 80 * MIB
