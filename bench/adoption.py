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

SIZE = 200
"""Not the 1,000 of the promise: their scripts, all on two cores, brought the machine to a standstill before there was a
figure. ``python -m bench.many --size 1000`` measures that many with a simulated batch server.
"""
SECONDS = 1800.0
QUIET_SECONDS = 20.0
"""After all are known: for whatever the new agent still has to write."""


@dataclass(frozen=True)
class Start:
    """Seconds from the process' start to its lead, and from there until all is adopted.

    Adopted: it says so in its log, and its figures show every job as running.
    """

    led: float
    adopted: float


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
        Row(f"killed: from its lead to {count} jobs adopted", killed.adopted, "s", 5.0),
        Row("handed over: from the start of the process to its lead", ended.led, "s"),
        Row(f"handed over: from its lead to {count} jobs adopted", ended.adopted, "s", 5.0),
        Row("handed over: from the start of the process to that", ended.led + ended.adopted, "s"),
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
    until(lambda: _logged(way.log(offset), "adopted") > 0, "its word that all are adopted", SECONDS)
    lines = way.log(offset)
    led, said = _logged(lines, "leading"), _logged(lines, "adopted")
    time.sleep(QUIET_SECONDS)
    return Start(led - begun, max(known, said) - led)


def _logged(lines: list[dict[str, Any]], message: str) -> float:
    """When a line about the agent itself, not about a Pod, was first written: seconds since 1970, 0 where it was not."""
    found = (line for line in lines if line["message"] == message and "pod" not in line)
    return next((datetime.fromisoformat(line["time"]).timestamp() for line in found), 0.0)


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
