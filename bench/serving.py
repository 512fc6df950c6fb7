"""Starts webhooks in processes of their own, and asks them with the cheapest possible clients."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from router.certs import files, issuing
from router.notation import documents

EXAMPLES = Path("examples")
POLICIES = Path("examples/policies")


@dataclass(frozen=True)
class Serving:
    """A running server: its process, port and log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def worker(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)  # it listens before it forks
        return int(found[0])

    def memory(self) -> float:
        """Resident memory of the worker in MiB."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def make_certificates(directory: Path) -> None:
    now = datetime.now(UTC)
    ca, keys = issuing.make_ca(now), issuing.make_signing_keys()
    server = issuing.make_server_certificate(ca, ["localhost"], now)
    files.write_all(
        directory,
        {"ca.crt": ca.public, "tls.crt": server.public, "tls.key": server.private, "signing.key": keys.private},
    )


def noop(directory: Path) -> contextlib.AbstractContextManager[Serving]:
    """The app that always answers "allowed"."""
    return _serving(["bench.noop", str(directory / "tls.crt"), str(directory / "tls.key")], directory / "noop.log")


def webhook(directory: Path) -> contextlib.AbstractContextManager[Serving]:
    """The real webhook with the examples' policy; it signs, and logs every decision."""
    argv = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost", "--policy", str(POLICIES)]
    argv += ["--cert", str(directory / "tls.crt"), "--key", str(directory / "tls.key")]
    argv += ["--signing-key", str(directory / "signing.key")]
    return _serving(argv, directory / "webhook.log")


@contextlib.contextmanager
def _serving(argv: Sequence[str], log: Path) -> Iterator[Serving]:
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", *argv], stdout=file, stderr=file)
    try:
        yield Serving(process, _port(process, log), log)
    finally:
        process.terminate()
        process.wait(30)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    while process.poll() is None:
        for line in log.read_text().splitlines():
            if '"message":"listening"' in line:
                return int(json.loads(line)["address"].rpartition(":")[2])
        time.sleep(0.05)
    raise SystemExit(f"the server ended: {log.read_text()}")


def request_for(job: str, uid: str = "0b2c7c1e-0000-4000-8000-000000000001") -> bytes:
    """A whole HTTP request with the review of a Job's creation, as the API server sends it."""
    body = json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "kind": {"group": "batch", "version": "v1", "kind": "Job"},
                "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
                "operation": "CREATE",
                "namespace": "default",
                "name": "bench",
                "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
                "dryRun": False,
                "object": documents.parse((EXAMPLES / job / "job.yaml").read_text(), job)[0].value,
                "oldObject": None,
            },
        }
    ).encode()
    head = f"POST /mutate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


class Client:
    """One kept connection over verified TLS. The cost of http.client would hide the servers' difference."""

    def __init__(self, port: int, directory: Path) -> None:
        plain = socket.create_connection(("localhost", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = ssl.create_default_context(cafile=directory / "ca.crt").wrap_socket(
            plain, server_hostname="localhost"
        )

    def ask(self, request: bytes) -> bytes:
        """Send a request; returns the body of its answer, which must be 200."""
        self._socket.sendall(request)
        answer = b""
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer += self._received()
        head = answer[:end].lower()
        assert head.startswith(b"http/1.1 200"), answer
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(answer) < end + 4 + length:
            answer += self._received()
        return answer[end + 4 :]

    def _received(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the server closed the connection"
        return data

    def close(self) -> None:
        self._socket.close()
