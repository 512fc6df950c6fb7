"""Compares routed admission over TLS with a Flask app that always answers "allowed", served the same way."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.report import Row, write
from bench.serving import Client, Serving, make_certificates, noop, request_for, webhook

ROUNDS = 3000
CLIENTS = 8
SECONDS = 4.0
TURNS = 4
JOB = "05-init-container-and-sidecar"


def main() -> None:
    """Measure the median with one client and the throughput with eight client processes, the two servers in turns."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make_certificates(directory)
        with noop(directory) as idle, webhook(directory) as ours:
            assert b'"patch"' in Client(ours.port, directory).ask(request_for(JOB))
            rows = _latency(idle, ours, directory) + _throughput(idle, ours, directory)
            decided = [json.loads(line) for line in ours.log.read_text().splitlines() if '"decision"' in line]
            assert {line["target"] for line in decided} == {"hpc"}
    sys.exit(not write("webhook", rows))


def _latency(idle: Serving, ours: Serving, directory: Path) -> list[Row]:
    request = request_for(JOB)
    clients = {"idle": Client(idle.port, directory), "ours": Client(ours.port, directory)}
    times: dict[str, list[float]] = {"idle": [], "ours": []}
    for turn in range(ROUNDS + 200):
        for name, client in clients.items():
            start = time.perf_counter()
            client.ask(request)
            if turn >= 200:
                times[name].append((time.perf_counter() - start) * 1000)
    theirs, mine = (statistics.median(times[name]) for name in ("idle", "ours"))
    slow = statistics.quantiles(times["ours"], n=100)[98]
    return [
        Row("no-op Flask app: median", theirs, "ms"),
        Row("routed admission: median", mine, "ms"),
        Row("routed admission: 99th percentile", slow, "ms"),
        Row("routed admission: median, times the no-op's", mine / theirs, "", 3.0),
    ]


def _throughput(idle: Serving, ours: Serving, directory: Path) -> list[Row]:
    counts = {"idle": 0.0, "ours": 0.0}
    for _ in range(TURNS):
        counts["idle"] += _answered(idle.port, directory) / TURNS
        counts["ours"] += _answered(ours.port, directory) / TURNS
    return [
        Row("no-op Flask app: 8 client processes", counts["idle"], "requests/s"),
        Row("routed admission: 8 client processes", counts["ours"], "requests/s"),
        Row(
            "routed admission: requests/s, part of the no-op's",
            counts["ours"] / counts["idle"],
            "",
            0.33,
            at_least=True,
        ),
    ]


def _answered(port: int, directory: Path) -> float:
    """Answered requests a second of all client processes together."""
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(CLIENTS)
    counts: multiprocessing.Queue[int] = context.Queue()
    processes = [
        context.Process(target=_client, args=(port, directory, begin, counts), daemon=True) for _ in range(CLIENTS)
    ]
    for process in processes:
        process.start()
    total = sum(counts.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    return total / SECONDS


def _client(port: int, directory: Path, begin, counts) -> None:  # type: ignore[no-untyped-def]
    client, request, count = Client(port, directory), request_for(JOB), 0
    begin.wait()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        client.ask(request)
        count += 1
    counts.put(count)


if __name__ == "__main__":
    main()
