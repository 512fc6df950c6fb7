"""Measures how soon an agent that is restarted while many jobs run knows all of them again.

The agent is restarted twice: after SIGKILL, when its lease must first run out, and after SIGTERM, when it hands the
lease over. The queue shows whether a job was submitted twice. The API server's metrics show how often a Pod's status
was written.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from bench.report import Row, write
from bench.whole import PODS, Whole, machine, run, size, until, whole
from router.errors import ApiUnavailable
from router.local.records import FINISHED

SIZE = 500
"""Half of the promise's 1,000, which ``--size 1000`` measures: each job is nine processes and 10 MB, and on two cores
starting them takes longer than measuring. ``python -m bench.many --size 1000`` measures as many with a simulated batch
server.
"""
SECONDS = 1800.0
QUIET_SECONDS = 20.0
"""Wait after all jobs are known, for the last writes of the new agent."""
AT_ONCE = 50
"""Number of jobs that are killed together at the end."""


@dataclass(frozen=True)
class Start:
    """Seconds from the process' start to its lead, and from there until all jobs are adopted.

    Jobs are adopted when the agent's log says so and its metrics show every job as running.
    """

    led: float
    adopted: float


def main() -> None:
    """Start the Jobs, restart the agent twice, print the times."""
    count = size(SIZE)
    before = machine("before")
    with _with_jobs() as way:
        way.create([f"adopted-{number:04}" for number in range(count)], "exec sleep 86400")
        until(lambda: _all_run(way, count), "all Pods running", SECONDS, pause=2.0)
        time.sleep(QUIET_SECONDS)
        forked = _forked(QUIET_SECONDS)
        idle = machine(f"with {count} jobs")
        written = _writes(way)
        killed = _restart(way, count, signal.SIGKILL)
        ended = _restart(way, count, signal.SIGTERM)
        written = _writes(way) - written
        twice = way.submitted() - count
        rows = [
            *before,
            *idle,
            Row("processes forked a second by all of the machine while the jobs only run", forked, ""),
            Row("killed: from the start of the process to its lead (a lease runs out)", killed.led, "s"),
            Row(f"killed: from its lead to {count} jobs adopted", killed.adopted, "s", 5.0),
            Row("handed over: from the start of the process to its lead", ended.led, "s"),
            Row(f"handed over: from its lead to {count} jobs adopted", ended.adopted, "s", 5.0),
            Row("handed over: from the start of the process to that", ended.led + ended.adopted, "s", 5.0),
            Row("jobs submitted twice", twice, "", 0.0),
            Row("Pods that do not run any more", count - _running(way), "", 0.0),
            Row("writes of a Pod's status in both starts together", written, ""),
        ]
        kept = write("adoption", rows)  # before the block ends the jobs, which takes a while
    sys.exit(not kept)


@contextmanager
def _with_jobs() -> Iterator[Whole]:
    """``whole``, but at the end jobs are killed a few at a time: all their scripts at once would stop the machine."""
    with whole() as way:
        try:
            yield way
        finally:
            way.stack.agent.end()
            ids = sorted(_living(way))
            for first in range(0, len(ids), AT_ONCE):
                some = ids[first : first + AT_ONCE]
                run(way.commands.argv("qdel", "-W", "force", *some))
                until(lambda: not _living(way) & set(some), "the end of jobs", SECONDS, pause=1.0)  # noqa: B023


def _living(way: Whole) -> set[str]:
    return {job.job_id for job in way.batch_jobs() if job.state != FINISHED}


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


def _forked(seconds: float) -> float:
    """Processes that the machine makes in a second, measured for ``seconds`` (proc(5), ``processes`` in /proc/stat)."""
    first = _processes_made()
    time.sleep(seconds)
    return (_processes_made() - first) / seconds


def _processes_made() -> int:
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return next(int(words[1]) for words in lines if words[0] == "processes")


def _logged(lines: list[dict[str, Any]], message: str) -> float:
    """When a log line of the agent itself (without a Pod) first has this message: seconds since 1970; 0 if never."""
    found = (line for line in lines if line["message"] == message and "pod" not in line)
    return next((datetime.fromisoformat(line["time"]).timestamp() for line in found), 0.0)


def _all_run(way: Whole, count: int) -> bool:
    """Whether all Pods run; False while the API server, busy with these Jobs, does not answer."""
    try:
        return _running(way) == count
    except ApiUnavailable:
        return False


def _running(way: Whole) -> int:
    pages = way.api.pages(PODS, fieldSelector="status.phase=Running")
    return sum(len(page) for page, _ in pages)


def _writes(way: Whole) -> float:
    """How many requests changed a Pod's status since the API server's start."""
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
