"""Measures ``batchgate route`` of one Job as a whole process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.report import Row, write

RUNS = 15
COMMAND = (
    str(Path(sys.executable).parent / "batchgate"),
    *("route", "-f", "examples/02-large-goes-to-hpc/job.yaml", "--policy", "examples/policies", "--user", "ada"),
)


def seconds(command: tuple[str, ...]) -> float:
    """Wall time of one run, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print the median, and the time that starting Python alone takes."""
    seconds(COMMAND)
    whole = statistics.median(seconds(COMMAND) for _ in range(RUNS))
    python = statistics.median(seconds((sys.executable, "-c", "pass")) for _ in range(RUNS))
    rows = [Row("batchgate route, one Job, whole process", whole, "s", 0.8), Row("python -c pass", python, "s")]
    sys.exit(not write("route", rows))


if __name__ == "__main__":
    main()
