"""A webhook in a process of its own, and a client that verifies its certificate."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from router.certs import issuing
from router.certs.files import write_all

T = TypeVar("T")
ROOT = Path(__file__).parent.parent.parent


def until(condition: Callable[[], T], seconds: float = 90) -> T:
    """Poll until the condition holds; its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


@dataclass(frozen=True)
class Pki:
    """A CA and a directory with a certificate and key made by it."""

    ca: issuing.Pair
    directory: Path

    @property
    def certificate(self) -> Path:
        return self.directory / "tls.crt"

    @property
    def key(self) -> Path:
        return self.directory / "tls.key"

    def issue(self, *names: str, now: datetime | None = None, days: int = 10) -> issuing.Pair:
        """Another certificate of the same CA."""
        return issuing.make_server_certificate(self.ca, names, now or datetime.now(UTC), days)

    def put(self, pair: issuing.Pair) -> None:
        """Make this pair the one that the webhook reads."""
        write_all(self.directory, {"tls.crt": pair.public, "tls.key": pair.private})


def make_pki(directory: Path) -> Pki:
    ca = issuing.make_ca(datetime.now(UTC))
    write_all(directory, {"ca.crt": ca.public})
    pki = Pki(ca, directory)
    pki.put(pki.issue("localhost", "127.0.0.1", "::1"))
    return pki


class Server:
    """A running webhook."""

    def __init__(
        self, argv: Sequence[str], pki: Pki, log_file: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.log_file = log_file
        self.tls = ssl.create_default_context(cafile=pki.directory / "ca.crt")
        with log_file.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-m", *argv],  # gunicorn leaves some
                stderr=file,
                stdout=file,
                cwd=ROOT,
                env=os.environ | (environment or {}),
                start_new_session=True,
            )
        self.address = ""
        self.port = 0

    def await_listening(self) -> None:
        self.address = str(until(self._address))
        self.port = int(self.address.rpartition(":")[2])

    def _address(self) -> str | None:
        assert self.process.poll() is None, self.log_file.read_text()
        return next((line["address"] for line in self.lines() if line.get("message") == "listening"), None)

    def lines(self) -> list[dict[str, Any]]:
        """The log so far; a line that is no JSON is an error, but for the last while it is being written."""
        text = self.log_file.read_text()
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def logged(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["message"].startswith(message)]

    def connect(self, timeout: float = 180, source: str | None = None) -> http.client.HTTPSConnection:
        host = "::1" if self.address.startswith("[") else "localhost"
        own = (source, 0) if source else None
        connection = http.client.HTTPSConnection(host, self.port, context=self.tls, timeout=timeout, source_address=own)
        connection.connect()
        return connection

    def ask(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            return exchange(connection, method, path, body, content_type)

    def review(self, **body: Any) -> tuple[int, dict[str, Any]]:
        status, _, answer = self.ask("POST", "/mutate", json.dumps(body).encode())
        return status, json.loads(answer)

    def metrics(self) -> dict[str, float]:
        """Every sample: name with labels to value."""
        text = self.ask("GET", "/metrics")[2].decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def children(self) -> list[int]:
        """Process ids of the workers."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in path.read_text().split()]

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def end(self) -> None:
        """Whatever happened: leave nothing behind."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    content_type: str = "application/json",
) -> tuple[int, dict[str, str], bytes]:
    """One request on this connection."""
    headers = {"Content-Type": content_type} if content_type else {}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


@contextlib.contextmanager
def serving(
    argv: Sequence[str], pki: Pki, log_file: Path, environment: dict[str, str] | None = None
) -> Iterator[Server]:
    server = Server(argv, pki, log_file, environment)
    try:
        server.await_listening()
        yield server
    finally:
        server.end()
