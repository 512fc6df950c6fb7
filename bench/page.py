"""Measures the web page of 5,000 Jobs: the processor's time for the first screen, the memory that the Jobs take.

Times are of this process alone, so a busy machine changes them little. Jobs are as the API server lists them, each with a
script of 20 KiB; half of them have a Pod. Of one Job with as many Pods it measures what its page keeps. Where there is a
Chromium, it loads the first screen from a server of its own; that time is by the clock.
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

from bench import paint
from bench.report import Row, write
from router import names
from router.page.models.looking import Sight
from router.page.models.parts import Events, Pods
from router.page.models.rows import row_of
from router.page.reader import Kept
from router.pod.view import view
from tests.operating.objects import event
from tests.page.objects import client_of, judged, pending, ran, sight

JOBS = 5_000
EVENTS = 15_000
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


def of_one_job() -> Row:
    """The MiB that the page of one Job takes at most while it goes through the Pods and Events of a list."""
    job = made(0)
    pods = [json.dumps(with_script(number)).encode() for number in range(JOBS)]
    events = [json.dumps(told(number)).encode() for number in range(EVENTS)]
    gc.collect()
    tracemalloc.start()
    chosen = Pods()
    for text in pods:
        chosen.take(json.loads(text))
    latest = Events(job, [one["metadata"]["uid"] for one in chosen.chosen])
    for text in events:
        latest.take(json.loads(text))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    listed = sum(map(len, (*pods, *events))) / 2**20
    return Row(f"one Job of {JOBS:,} Pods among {EVENTS:,} Events, {listed:.0f} MiB", most / 2**20, "MiB", 8.0)


def with_script(number: int) -> dict[str, Any]:
    """A Pod of the Job, as it comes."""
    found = ran(f"job-00000-{number:05}", "job-00000", created="09:00:00", started="09:10:00")
    found["metadata"]["annotations"] = {names.KEY_SCRIPT: SCRIPT}
    return found


def told(number: int) -> dict[str, Any]:
    """An Event of the namespace; one in three is about a Pod of the Job."""
    about = with_script(number)
    return {**event(about, "Pulled", f"Event {number}", "09:10:00"), "metadata": {"uid": f"event-{number}"}}


def paint_rows() -> list[Row]:
    """What a browser takes, where there is one."""
    if paint.CHROMIUM is None:
        print("There is no Chromium here: its first paint is not measured.")
        return []
    loads = sorted(paint.paints("bench.page"))
    return [
        Row(f"first paint of {JOBS:,} Jobs in Chromium, the median of {len(loads)} loads", statistics.median(loads), "s"),
        Row("the slowest of them", loads[-1], "s", 1.0),
    ]  # fmt: skip


def lists() -> tuple[list[bytes], list[bytes]]:
    """Jobs and Pods as they come."""
    jobs = [json.dumps(made(number)).encode() for number in range(JOBS)]
    return jobs, [json.dumps(pod_of(number)).encode() for number in range(0, JOBS, 2)]


def main() -> None:
    """Print the figures for few and for many Jobs. With the argument ``serve``: serve the page of many."""
    jobs, pods = lists()
    if sys.argv[1:] == ["serve"]:
        paint.serve_for_ever(sight(jobs=kept(jobs, row_of)[0], pods=kept(pods, view)[0]))
        return
    rows, of_jobs = kept(jobs, row_of)
    views, of_pods = kept(pods, view)
    rows_now = [
        Row(f"{JOBS:,} Jobs as the API server lists them", sum(map(len, jobs)) / 2**20, "MiB"),
        Row("the same, as the page keeps them", of_jobs, "MiB", 16.0),
        Row(f"{len(pods):,} Pods, as the page keeps them", of_pods, "MiB", 16.0),
        of_one_job(),
        Row("first screen of 100 Jobs", seconds(sight(jobs=rows[:100], pods=views[:50])), "s"),
        Row(f"first screen of {JOBS:,} Jobs", seconds(sight(jobs=rows, pods=views)), "s", 0.5),
        *paint_rows(),
    ]
    sys.exit(not write("page", rows_now))


if __name__ == "__main__":
    main()
