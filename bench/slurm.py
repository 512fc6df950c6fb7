"""Measures an agent in front of a real Slurm, on the login node and over ssh: its delays, its rate, its questions.

The bed has to be up (``make bed``, docs/bed.md); without it this is skipped. It cannot be used for anything else
meanwhile.

* Delays: a Job is created every two seconds, as each starts a container on a machine that is also the cluster. A job
  counts as queued when its id is noted in its Pod's directory, after ``sbatch``.
* Rate: the agent starts with many bound Pods and a queue that starts no jobs. Its rate is compared with a loop that
  does only the necessary work on the site for each job, over the same connection (``bench.siteloop``). Half of the loop
  runs before the agent and half after it, so that both meet the same changes of the machine's speed.
* Questions: two are expected in each cycle, and one a second in between while notes of scripts arrive.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from bench.latency import Ends, create_slowly, percentile
from bench.onbed import CPUS, WAYS, Loops, OnBed, demand_standing, loops, on_bed, starting_nothing
from bench.report import Row, write
from bench.siteloop import staged_in
from bench.whole import create, job, machine, sized, until
from router.pod.layout import PodDirectory
from tests.agent.bed.site import LOCAL_SUDO, SUDO

SIZE = 500
SLOW = 40
"""Number of Jobs that are created one by one."""
EVERY = 2.0
BARE = 100
SECONDS = 900.0
WATCHED = 60.0
"""Seconds for which an agent is watched while its jobs wait in the queue."""
QUEUED_WITHIN: Mapping[str, float] = {LOCAL_SUDO: 1.0, SUDO: 1.5}
"""Seconds from a Job's creation to its batch job, at the median."""
ENOUGH = 40.0
"""Submissions a second that are enough, even if the loop is much faster."""


def main() -> None:
    """Print all figures of each way."""
    parser = sized(SIZE)
    parser.add_argument("--slow", type=int, default=SLOW, help="Jobs that come one by one.")
    parser.add_argument("--way", choices=sorted(WAYS), action="append", help="How the agent comes to the users.")
    asked = parser.parse_args()
    demand_standing()
    rows = machine("before")
    for way in asked.way or WAYS:
        with on_bed(way) as bed:
            rows += _latency(bed, way, asked.slow)
            rows += _burst(bed, way, asked.size)
    sys.exit(not write("slurm", [*rows, *machine("after")]))


def _latency(bed: OnBed, way: str, count: int) -> list[Row]:
    ends = Ends(bed.api)
    ends.watch.start()
    until(ends.watch.synced.is_set, "the list of Pods", SECONDS)
    names = [f"slow-{number:04}" for number in range(count)]
    create_slowly(bed.api, [job("warm-up", "true", CPUS)])
    until(lambda: "warm-up" in ends.seen, "the end of the first Job", SECONDS)
    before, begun = bed.asked(), time.monotonic()
    created = create_slowly(bed.api, [job(name, "date +%s.%N", CPUS) for name in names], EVERY)
    until(lambda: all(name in ends.seen for name in names), "the end of all Jobs", SECONDS)
    after, seconds = bed.asked(), time.monotonic() - begun
    ends.watch.stop()
    pods = bed.pods()
    queued = [Path(pods[name].job_id).stat().st_mtime - created[name] for name in names]
    told = [ends.seen[name] - _ended(pods[name]) for name in names]
    where = WAYS[way]
    between = max(0.0, after.commands - before.commands - 2 * (after.cycles - before.cycles))
    return [
        Row(f"{where}: Job created to batch job queued: median", statistics.median(queued), "s", QUEUED_WITHIN[way]),
        Row(f"{where}: Job created to batch job queued: 95th percentile", percentile(queued), "s"),
        Row(f"{where}: container's end to terminal Pod status: median", statistics.median(told), "s", 2.0),
        Row(f"{where}: container's end to terminal Pod status: 95th percentile", percentile(told), "s"),
        Row(f"{where}: cycles meanwhile", after.cycles - before.cycles, ""),
        Row(f"{where}: status commands meanwhile", after.commands - before.commands, ""),
        Row(f"{where}: of these beside two a cycle, a second", between / seconds, "", 1.0),
        *machine(f"{where}, after {count} Jobs"),
    ]


def _ended(pod: PodDirectory) -> float:
    """The time that the container wrote last; before it, a runtime of another release may warn of libraries."""
    return float(Path(pod.log("main")).read_text().split()[-1])


def _burst(bed: OnBed, way: str, count: int) -> list[Row]:
    bed.stack.agent.terminate()
    files = staged_in(Path(bed.pods()["warm-up"].path))
    few = min(BARE, count)
    with starting_nothing():
        compared = [loops(bed, files, few)]
        pods = _bound(bed, count)
        bed.stack.agent.start()
        until(lambda: len(_noted(pods)) == count, "all submissions", SECONDS, pause=1.0)
        noted = sorted(_noted(pods))
        led = datetime.fromisoformat(bed.stack.agent.logged("leading")[-1]["time"]).timestamp()
        first = bed.asked()
        time.sleep(WATCHED)
        last = bed.asked()
        bed.stack.agent.terminate()
        compared.append(loops(bed, files, few))
        bed.forget()
    alone = statistics.harmonic_mean([loop.whole for loop in compared])
    submitted = (count - 1) / (noted[-1] - noted[0])
    where = WAYS[way]
    return [
        *(Row(f"{where}: the submit command alone: {when}", loop.bare, "1/s") for when, loop in _told(compared)),
        *(Row(f"{where}: loop of what each job needs: {when}", loop.whole, "1/s") for when, loop in _told(compared)),
        Row(f"{where}: {count} Pods: from the lead to the first submission", noted[0] - led, "s"),
        Row(f"{where}: {count} Pods: from the lead to the last submission", noted[-1] - led, "s"),
        Row(f"{where}: {count} Pods: submitted, part of the loop's rate", submitted / alone, ""),
        Row(f"{where}: {count} Pods: submitted", submitted, "1/s", min(0.7 * alone, ENOUGH), at_least=True),
        Row(f"{where}: {count} jobs wait: cycles looked at", last.cycles - first.cycles, ""),
        Row(f"{where}: {count} jobs wait: status commands a cycle and observer", last.a_cycle_since(first), "", 2.0),
        *machine(f"{where}, after {count} Pods"),
    ]


def _told(found: list[Loops]) -> zip[tuple[str, Loops]]:
    return zip(("before", "after"), found, strict=True)


def _bound(bed: OnBed, count: int) -> list[PodDirectory]:
    """Create ``count`` Jobs and wait until their Pods are bound to the queue's Node; returns the Pods' directories."""
    names = [f"burst-{number:04}" for number in range(count)]
    create(bed.api, [job(name, "true", CPUS) for name in names])
    until(lambda: bed.pods().keys() >= set(names), "all Pods", SECONDS, pause=1.0)
    pods = bed.pods()
    return [pods[name] for name in names]


def _noted(pods: Sequence[PodDirectory]) -> list[float]:
    """The times when the ids of these Pods' jobs were noted, as far as they are."""
    paths = [Path(pod.job_id) for pod in pods]
    return [path.stat().st_mtime for path in paths if path.exists()]


if __name__ == "__main__":
    main()
