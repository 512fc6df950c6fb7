"""Measures what one array submission for all indexes of an Indexed Job could save.

A batch job needs its Pod: the Pod's uid names its directory, and the files there are the Pod's. So an array could be
submitted when the Job controller has made the last Pod, and no sooner. What it could save of the
last index is at most the time from that moment to the agent's last submission as it is now, and it delays all other
indexes. Both are measured in one run, for each way to the batch system, with the requests a second of a default
cluster's controllers and with raised ones. The queue starts no jobs meanwhile.

What an array saves on Slurm itself is measured with scripts of one ``true``: ``sbatch`` as often as there are indexes
and ``sbatch --array`` once, in a queue that starts nothing and in an open one until the last of them has ended.

The figures of Slurm need the bed (``make bed``, docs/bed.md); without it there are only those of the embedded queue.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bench.barearrays import on_slurm
from bench.onbed import CPUS, OnBed, loops, on_bed, starting_nothing
from bench.report import Row, write
from bench.siteloop import staged_in
from bench.whole import JOBS, LABEL, PODS, job, machine, sized, until, whole
from router.kube.client import Api
from router.pod import layout
from tests.agent.bed.site import LOCAL, LOCAL_SUDO, OWN_KEYS, SUDO, obstacle

SIZE = 1000
SECONDS = 1800.0
BARE = 100
"""Jobs of the loop that is compared with the agent."""
EMBEDDED = "embedded"
WAYS = {
    EMBEDDED: "embedded queue",
    LOCAL: "Slurm, as the user on the login node",
    LOCAL_SUDO: "Slurm, with sudo on the login node",
    OWN_KEYS: "Slurm, over ssh with the user's key",
    SUDO: "Slurm, over ssh and sudo",
}
LIMITS = {False: "default limits", True: "raised limits"}
"""The names of ``raised_limits`` of a control plane in a report."""
_NAME = "indexes"
_SUBMITTED = f"{layout.PODS}/*/*/*/{layout.JOB_ID}"


@dataclass(frozen=True)
class Course:
    """What became of the Pods of one Job, in seconds since it was applied, each sorted.

    Pods are made with their Node's name. The API server's times are whole seconds, rounded down.
    """

    made: tuple[float, ...]
    submitted: tuple[float, ...]

    def rows(self, name: str) -> list[Row]:
        """The figures of a report."""
        last = self.submitted[-1]
        saved = max(0.0, last - self.made[-1])
        return [
            Row(f"{name}: last Pod made", self.made[-1], "s"),
            Row(f"{name}: first submission", self.submitted[0], "s"),
            Row(f"{name}: last submission", last, "s"),
            Row(f"{name}: Pods made", _rate(self.made), "1/s"),
            Row(f"{name}: submitted", _rate(self.submitted), "1/s"),
            Row(f"{name}: submitted, part of the rate of the Pods", _rate(self.submitted) / _rate(self.made), ""),
            Row(f"{name}: an array saves the last index at most", saved, "s"),
            Row(f"{name}: the same, part of the way to the last submission", saved / last, ""),
            Row(f"{name}: an array delays the first index at least", self.made[-1] - self.submitted[0], "s"),
        ]


def main() -> None:
    """Print all figures."""
    asked = _arguments()
    ways = asked.way or list(WAYS)
    if words := obstacle():
        print(f"without Slurm: {words}")
        ways = [EMBEDDED]
    rows = machine("before")
    if ways != [EMBEDDED]:
        rows += on_slurm(asked.size)
    write("arrays", rows)
    for raised, limits in LIMITS.items():
        for way in ways:
            measure = _embedded if way == EMBEDDED else _on_bed
            found = [*measure(way, asked.size, raised), *machine(f"{WAYS[way]}, {limits}")]
            rows += found
            write("arrays", rows, printed=len(rows) - len(found))


def _embedded(way: str, count: int, raised: bool) -> list[Row]:  # noqa: FBT001 - one signature for both
    """The Pods without an agent in a cluster of their own, then with one."""
    with whole(started=False, raised_limits=raised) as found:
        found.stack.agent.end()
        made = _made(found.api, _apply(found.api, count), count)
    with whole(started=False, raised_limits=raised) as found:
        course = _course(found.api, lambda: [one.created for one in found.batch_jobs()], count)
    return [
        Row(f"no agent, {LIMITS[raised]}: last Pod made", made[-1], "s"),
        Row(f"no agent, {LIMITS[raised]}: Pods made", _rate(made), "1/s"),
        *course.rows(f"{WAYS[way]}, {LIMITS[raised]}"),
    ]


def _on_bed(way: str, count: int, raised: bool) -> list[Row]:  # noqa: FBT001 - one signature for both
    name = f"{WAYS[way]}, {LIMITS[raised]}"
    with on_bed(way, raised_limits=raised) as bed, starting_nothing():
        course = _course(bed.api, lambda: _noted(bed), count)
        bed.stack.agent.terminate()
        compared = loops(bed, staged_in(next(bed.root.glob(_SUBMITTED)).parent), min(BARE, count))
        bed.forget()  # while none of its jobs may start
    return [
        *course.rows(name),
        Row(f"{name}: loop of what each Pod needs on the site", compared.whole, "1/s"),
        Row(f"{name}: loop of the submit command alone", compared.bare, "1/s"),
    ]


def _course(api: Api, submitted: Callable[[], Sequence[float]], count: int) -> Course:
    """Apply the Job and wait for its last submission.

    :param submitted: the times of the submissions so far, in seconds since 1970
    """
    begun = _apply(api, count)
    until(lambda: len(submitted()) == count, "all submissions", SECONDS, pause=1.0)
    return Course(_made(api, begun, count), tuple(sorted(one - begun for one in submitted())))


def _apply(api: Api, count: int) -> float:
    """Create an Indexed Job that wants all its Pods at once; returns when that was, in seconds since 1970."""
    wanted = job(_NAME, "true", CPUS)
    wanted["spec"] |= {"completionMode": "Indexed", "completions": count, "parallelism": count}
    begun = time.time()
    api.create(JOBS, wanted)
    return begun


def _made(api: Api, begun: float, count: int) -> tuple[float, ...]:
    """Wait until all Pods are there; returns when each was made, since ``begun``."""
    until(lambda: api.get(f"{JOBS}/{_NAME}").get("status", {}).get("active") == count, "all Pods", SECONDS, pause=1.0)
    pods = [pod for page, _ in api.pages(PODS, labelSelector=f"{LABEL}={_NAME}") for pod in page]
    return tuple(sorted(_seconds(pod["metadata"]["creationTimestamp"]) - begun for pod in pods))


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _noted(bed: OnBed) -> list[float]:
    """The times when the agent noted the ids of its submissions."""
    return [path.stat().st_mtime for path in Path(bed.root).glob(_SUBMITTED)]


def _rate(times: Sequence[float]) -> float:
    """Per second, from the first to the last; the clock of Pods may give all of a few the same second."""
    return (len(times) - 1) / max(1.0, times[-1] - times[0])


def _arguments() -> argparse.Namespace:
    parser = sized(SIZE)
    parser.add_argument("--way", choices=sorted(WAYS), action="append", help="How the agent comes to the batch system.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
