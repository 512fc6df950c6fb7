"""Measures the time from a Job's creation to its batch job, and from its container's end to its Pod's terminal status.

One Job is created each second. The agent has its default times: it looks at the batch system every 5 seconds while
something happens. The container writes the time of its own end into a file. The Pod's end counts when a watch shows it,
as with ``kubectl wait``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from bench.report import Row, write
from bench.whole import JOBS, LABEL, PODS, Whole, job, machine, size, until, whole
from router.kube.client import Api
from router.kube.watching import Watch

SIZE = 60
SECONDS = 300.0
"""Longest wait for the last Job's end, also on a busy machine."""


class Ends:
    """When a watch first showed the end of each Job's Pod, in seconds since 1970."""

    def __init__(self, api: Api) -> None:
        self.seen: dict[str, float] = {}
        self.watch = Watch(api, PODS, self._on_list, self._on_change, {"labelSelector": LABEL})

    def _on_list(self, pods: Iterator[dict[str, Any]]) -> None:
        for pod in pods:
            self._on_change("ADDED", pod)

    def _on_change(self, _kind: str, pod: dict[str, Any]) -> None:
        if pod["status"]["phase"] in {"Succeeded", "Failed"}:
            self.seen.setdefault(pod["metadata"]["labels"][LABEL], time.time())


def main() -> None:
    """Create Jobs, a second apart; print medians and the slowest."""
    count = size(SIZE)
    before = machine("before")
    with whole() as way:
        ends = Ends(way.api)
        ends.watch.start()
        until(ends.watch.synced.is_set, "the list of Pods", SECONDS)
        create_slowly(way.api, [_job(way, "warm-up")])
        until(lambda: "warm-up" in ends.seen, "the end of the first Job", SECONDS)
        names = [f"latency-{number:04}" for number in range(count)]
        created = create_slowly(way.api, [_job(way, name) for name in names])
        until(lambda: all(name in ends.seen for name in names), "the end of all Jobs", SECONDS)
        ends.watch.stop()
        # A batch job is named <Job>-<five letters>.<cluster>.<Pod's uid>.
        queued = {one.name.partition(".")[0].rpartition("-")[0]: one.created for one in way.batch_jobs()}
        submission = [queued[name] - created[name] for name in names]
        report = [ends.seen[name] - float((way.root / "files" / name).read_text()) for name in names]
    rows = [
        *before,
        Row("Job created to batch job queued: median", statistics.median(submission), "s", 1.0),
        Row("Job created to batch job queued: 95th percentile", percentile(submission), "s", 2.0),
        Row("container's end to terminal Pod status: median", statistics.median(report), "s", 2.0),
        Row("container's end to terminal Pod status: 95th percentile", percentile(report), "s"),
        *machine("after"),
    ]
    sys.exit(not write("latency", rows))


def create_slowly(api: Api, jobs: Sequence[dict[str, Any]], every: float = 1.0) -> dict[str, float]:
    """Create Jobs ``every`` seconds apart; returns when each request was sent, by name: the webhook's time counts."""
    created = {}
    begun = time.monotonic()
    for number, one in enumerate(jobs):
        time.sleep(max(0.0, begun + number * every - time.monotonic()))
        created[one["metadata"]["name"]] = time.time()
        api.create(JOBS, one)
    return created


def percentile(values: Sequence[float]) -> float:
    """The 95th percentile, at most the slowest value."""
    return statistics.quantiles(values, n=20, method="inclusive")[18]


def _job(way: Whole, name: str) -> dict[str, Any]:
    """A Job that writes the time of its own end."""
    return job(name, f"date +%s.%N >{way.root}/files/{name}")


if __name__ == "__main__":
    main()
