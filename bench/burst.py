"""Compares a burst of Jobs into a queue that starts no jobs with a bare loop of the same submit command.

Both rates are taken from the queue's own records, from the first submission to the last. A shell runs the loop, with
the agent's command line and a script of the burst, into another embedded queue. Half of the loop runs before the burst
and half after it, so that both meet the same changes of the machine's speed.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from bench.report import Row, write
from bench.whole import Whole, define, machine, records, run, size, until, whole
from router.hpc import Submission, local
from router.names import ENV_DIR

SIZE = 500
BARE = 100
SECONDS = 900.0


def main() -> None:
    """Print both rates and their ratio."""
    count = size(SIZE)
    bare = min(BARE, count)
    before = machine("before")
    with whole(started=False) as way:
        submission = _first(way)
        loops = [_bare(way, submission, "before", bare)]
        names = [f"burst-{number:04}" for number in range(count)]
        begun = time.monotonic()
        way.create(names, "true")
        accepted = count / (time.monotonic() - begun)
        until(lambda: way.submitted() > count, "all submissions", SECONDS, pause=1.0)
        until(lambda: len(way.batch_jobs()) > count, "the records of all submissions", SECONDS)
        burst = _rate(way.queue, "burst-")
        loops.append(_bare(way, submission, "after", bare))
    alone = statistics.harmonic_mean(loops)
    rows = [
        *before,
        Row("bare loop of the submit command: before", loops[0], "1/s"),
        Row("bare loop of the submit command: after", loops[1], "1/s"),
        Row(f"burst of {count} Jobs: accepted by the API server", accepted, "1/s"),
        Row(f"burst of {count} Jobs: submitted", burst, "1/s"),
        Row("burst: submitted, part of the bare loop's rate", burst / alone, "", 0.7, at_least=True),
        *machine("after"),
    ]
    sys.exit(not write("burst", rows))


def _first(way: Whole) -> Submission:
    """Create one Job first, so that everything is warm; returns the agent's submission for it."""
    way.create(["first"], "true")
    until(lambda: len(way.batch_jobs()) == 1, "the first submission", SECONDS)
    (found,) = way.batch_jobs()
    directory = Path(found.variables[ENV_DIR])
    return Submission(found.name, str(directory / "script"), str(directory), str(directory / "output"))


def _bare(way: Whole, submission: Submission, name: str, count: int) -> float:
    """Submissions a second of the loop."""
    queue = way.root / name
    commands = way.commands_of(queue)
    define(commands, started=False)
    argv = local.submit_argv(submission, commands)
    run(argv)  # starts the queue's process
    run(["bash", "-c", 'for ((n = 0; n < $0; n++)); do "$@" || exit; done', str(count), *argv])
    found = _rate(queue, "", skip=1)
    run(commands.argv("stop", "--delete"))
    return found


def _rate(queue: Path, prefix: str, skip: int = 0) -> float:
    """Submissions a second, from the first to the last job whose name has this prefix."""
    times = sorted(one.created for one in records(queue) if one.name.startswith(prefix))[skip:]
    return (len(times) - 1) / (times[-1] - times[0])


if __name__ == "__main__":
    main()
