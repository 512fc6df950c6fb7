"""The cheapest possible clients of an API server: one connection over TLS each, in processes of their own."""

from __future__ import annotations

import json
import multiprocessing
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

_TURN_SECONDS = 300.0
_OK = (b"HTTP/1.1 200", b"HTTP/1.1 201")


@dataclass(frozen=True)
class Target:
    """An API server, and the files of a user who may create Jobs in its namespaces."""

    port: int
    ca: Path
    certificate: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.certificate)
        return context


class Client:
    """One kept connection. The cost of http.client would hide the measured difference."""

    def __init__(self, target: Target) -> None:
        plain = socket.create_connection(("127.0.0.1", target.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = target.context().wrap_socket(plain, server_hostname="127.0.0.1")
        self._left = b""

    def create(self, namespace: str, job: dict[str, Any], *, dry: bool) -> bytes:
        """Create a Job; returns the body of the answer. Raises AssertionError if it was refused."""
        body = json.dumps(job).encode()
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs{'?dryRun=All' if dry else ''}"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        return self._answer()

    def _answer(self) -> bytes:
        while (end := self._left.find(b"\r\n\r\n")) < 0:
            self._left += self._received()
        head, rest = self._left[:end], self._left[end + 4 :]
        if b"chunked" in head.lower():
            body, self._left = self._chunks(rest)
        else:
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(rest) < length:
                rest += self._received()
            body, self._left = rest[:length], rest[length:]
        assert head.startswith(_OK), (head, body)
        return body

    def _chunks(self, rest: bytes) -> tuple[bytes, bytes]:
        body = b""
        while True:
            while (line := rest.find(b"\r\n")) < 0:
                rest += self._received()
            size = int(rest[:line], 16)
            while len(rest) < line + 2 + size + 2:
                rest += self._received()
            body, rest = body + rest[line + 2 : line + 2 + size], rest[line + 2 + size + 2 :]
            if not size:
                return body, rest

    def _received(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the API server closed the connection"
        return data


@dataclass(frozen=True)
class Work:
    """Creations in a namespace, one after the other; each answer must contain the mark. ``dry``: only dry runs."""

    target: Target
    namespace: str
    jobs: Sequence[dict[str, Any]]
    mark: bytes
    dry: bool


def timed(work: Work) -> list[float]:
    """Milliseconds that each creation took."""
    client = Client(work.target)
    client.create(work.namespace, work.jobs[0], dry=True)
    found = []
    for job in work.jobs:
        start = time.perf_counter()
        answer = client.create(work.namespace, job, dry=work.dry)
        found.append((time.perf_counter() - start) * 1000)
        assert work.mark in answer, answer
    return found


def at_once(works: Sequence[Work]) -> list[float]:
    """``timed`` by one process for each work; the processes begin together."""
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(len(works))
    times: multiprocessing.Queue[list[float]] = context.Queue()
    processes = [context.Process(target=_one, args=(work, begin, times), daemon=True) for work in works]
    for process in processes:
        process.start()
    found = [one for _ in processes for one in times.get(timeout=_TURN_SECONDS)]
    for process in processes:
        process.join(_TURN_SECONDS)
    return found


def _one(work: Work, begin: Barrier, times: multiprocessing.Queue[list[float]]) -> None:
    begin.wait(_TURN_SECONDS)
    times.put(timed(work))
