"""An agent that is killed while many jobs run, and started again: until it knows them all.

Twice: after SIGKILL, where the lease of the one that was killed has to run out first, and after SIGTERM, where it is
handed over. That nothing is submitted twice is looked up in the queue; how often a Pod's status was written, in the
API server's own figures.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bench.report import Row, write
from bench.whole import PODS, Whole, machine, size, until, whole

SIZE = 1000
SECONDS = 1800.0
QUIET_SECONDS = 20.0
"""After all are known: for whatever the new agent still has to write."""


@dataclass(frozen=True)
class Start:
    """Seconds from the process' start to its lead, from its lead to its own word, and to the last Pod known as running."""

    led: float
    said: float
    known: float


def main() -> None:
    """Start the Jobs, restart the agent twice, print the times."""
    count = size(SIZE)
    before = machine("before")
    with whole() as way:
        way.create([f"adopted-{number:04}" for number in range(count)], "exec sleep 86400")
        until(lambda: _running(way) == count, "all Pods running", SECONDS, pause=2.0)
        time.sleep(QUIET_SECONDS)
        idle = machine(f"with {count} jobs")
        written = _writes(way)
        killed = _restart(way, count, signal.SIGKILL)
        ended = _restart(way, count, signal.SIGTERM)
        written = _writes(way) - written
        twice = way.submitted() - count
        running = _running(way)
    rows = [
        *before,
        *idle,
        Row("killed: from the start of the process to its lead (a lease runs out)", killed.led, "s"),
        Row("killed: from its lead to its word that all are adopted", killed.said, "s"),
        Row(f"killed: from its lead to {count} jobs known as running", killed.known, "s", 5.0),
        Row("handed over: from the start of the process to its lead", ended.led, "s"),
        Row(f"handed over: from its lead to {count} jobs known as running", ended.known, "s", 5.0),
        Row("jobs submitted twice", twice, "", 0.0),
        Row("Pods that do not run any more", count - running, "", 0.0),
        Row("writes of a Pod's status in both starts together", written, ""),
    ]
    sys.exit(not write("adoption", rows))


def _restart(way: Whole, count: int, number: signal.Signals) -> Start:
    agent = way.stack.agent
    agent.end(number, 60)
    offset = agent.log.stat().st_size
    begun = time.time()
    agent.start()
    until(lambda: way.metric("batchgate_agent_jobs", state="Running") == count, "all jobs known", SECONDS)
    known = time.time()
    lines = way.log(offset)
    led, said = _logged(lines, "leading"), _logged(lines, "adopted", pods=count)
    time.sleep(QUIET_SECONDS)
    return Start(led - begun, said - led, known - led)


def _logged(lines: list[dict[str, Any]], message: str, **fields: object) -> float:
    """When a line of the log was written; seconds since 1970."""
    found = next(line for line in lines if line["message"] == message and fields.items() <= line.items())
    return datetime.fromisoformat(found["time"]).timestamp()


def _running(way: Whole) -> int:
    pages = way.api.pages(PODS, fieldSelector="status.phase=Running")
    return sum(len(page) for page, _ in pages)


def _writes(way: Whole) -> float:
    """Requests that changed a Pod's status, since the API server's start."""
    text = way.stack.plane.kubectl("get", "--raw", "/metrics").stdout
    wanted = {"resource": "pods", "subresource": "status"}
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(
        one.value
        for one in samples
        if one.name == "apiserver_request_total"
        and wanted.items() <= one.labels.items()
        and one.labels["verb"] in {"PATCH", "PUT", "APPLY"}
    )


if __name__ == "__main__":
    main()
