"""Measures a webhook worker's memory over 50,000 routed reviews."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from bench.report import Row, write
from bench.serving import Client, Serving, make_certificates, request_for, webhook

CLIENTS = 8
EARLY, LATE = 10_000, 50_000
JOBS = ("05-init-container-and-sidecar", "03-mpi-over-two-nodes")
NOISE = 2.0
"""MiB by which a worker without leaks may grow between two looks, through the allocator's free lists."""


def main() -> None:
    """Send reviews of changing names and uids from eight connections; look at the worker in between."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make_certificates(directory)
        with webhook(directory) as server:
            Client(server.port, directory).ask(request_for(JOBS[0]))
            fresh = server.memory()
            early = _after(server, directory, 1, EARLY)
            late = _after(server, directory, EARLY, LATE)
    rows = [
        Row("worker after its first review", fresh, "MiB"),
        Row(f"worker after {EARLY:,} reviews", early, "MiB"),
        Row(f"worker after {LATE:,} reviews", late, "MiB", 120.0),
        Row(f"growth from {EARLY:,} to {LATE:,}", late - early, "MiB", NOISE),
    ]
    sys.exit(not write("memory", rows))


def _after(server: Serving, directory: Path, first: int, last: int) -> float:
    numbers = iter(range(first, last))
    lock = threading.Lock()
    threads = [threading.Thread(target=_client, args=(server.port, directory, numbers, lock)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return server.memory()


def _client(port: int, directory: Path, numbers: Iterator[int], lock: threading.Lock) -> None:
    client = Client(port, directory)
    requests = [request_for(job, "uid-00000000") for job in JOBS]
    while True:
        with lock:
            number = next(numbers, None)
        if number is None:
            client.close()
            return
        client.ask(requests[number % len(JOBS)].replace(b"uid-00000000", b"uid-%08d" % number))


if __name__ == "__main__":
    main()
