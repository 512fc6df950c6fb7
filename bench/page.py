"""Measures the web page of 5,000 Jobs: the processor's time for the first screen, the memory that the Jobs take.

Times are of this process alone, so a busy machine changes them little. Jobs are as the API server lists them, each with a
script of 20 KiB; half of them have a Pod.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import Row, write
from router import names
from router.page.models.looking import Sight
from router.page.models.rows import row_of
from router.page.reader import Kept
from router.pod.view import view
from tests.page.objects import client_of, judged, pending, ran, sight

JOBS = 5_000
ROUNDS = 9
SCRIPT = "echo a line of a script\n" * 850


def made(number: int) -> dict[str, Any]:
    """One Job as it comes."""
    found = judged(f"job-{number:05}", requester="ada" if number % 10 else "ben", created=f"09:{number % 60:02}:00")
    found["spec"]["template"]["metadata"] = {"annotations": {names.KEY_SCRIPT: SCRIPT}}
    return found


def pod_of(number: int) -> dict[str, Any]:
    """Its Pod: every other one waits."""
    name, of = f"job-{number:05}-abcde", f"job-{number:05}"
    if number % 4:
        return pending(name, of, "Queued", f"Resources ({number} jobs before it)", "09:00:00")
    return ran(name, of, created="09:00:00", started="09:10:00")


def kept(texts: list[bytes], keep: Callable[[Any], Any]) -> tuple[tuple[Any, ...], float]:
    """The projections of objects as a watch keeps them, and the MiB that they take."""
    gc.collect()
    tracemalloc.start()
    found: Kept[Any] = Kept(keep, lambda: None)
    found.on_list(json.loads(text) for text in texts)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return found.values(), taken / 2**20


def seconds(shown: Sight) -> float:
    """The processor's seconds for the first screen, headers and all; the median of some."""
    with tempfile.TemporaryDirectory() as name:
        client = client_of(Path(name), shown)
        assert client.get("/").status_code == 200
        times = []
        for _ in range(ROUNDS):
            begun = time.process_time()
            client.get("/")
            times.append(time.process_time() - begun)
    return statistics.median(times)


def main() -> None:
    """Print the figures for few and for many Jobs."""
    jobs = [json.dumps(made(number)).encode() for number in range(JOBS)]
    pods = [json.dumps(pod_of(number)).encode() for number in range(0, JOBS, 2)]
    rows, of_jobs = kept(jobs, row_of)
    views, of_pods = kept(pods, view)
    rows_now = [
        Row(f"{JOBS:,} Jobs as the API server lists them", sum(map(len, jobs)) / 2**20, "MiB"),
        Row("the same, as the page keeps them", of_jobs, "MiB", 16.0),
        Row(f"{len(pods):,} Pods, as the page keeps them", of_pods, "MiB", 16.0),
        Row("first screen of 100 Jobs", seconds(sight(jobs=rows[:100], pods=views[:50])), "s"),
        Row(f"first screen of {JOBS:,} Jobs", seconds(sight(jobs=rows, pods=views)), "s", 0.5),
    ]
    sys.exit(not write("page", rows_now))


if __name__ == "__main__":
    main()
