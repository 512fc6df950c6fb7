"""Runs every benchmark in a process of its own; the exit code is 1 if a promise is missed.

``python -m bench slurm`` runs the benchmarks whose names begin with ``slurm``.
"""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    *("bench.pipeline", "bench.rules", "bench.route", "bench.webhook", "bench.memory", "bench.overhead", "bench.page"),
    *("bench.latency", "bench.burst", "bench.adoption", "bench.many", "bench.users"),
    "bench.apiserver",
    *("bench.slurm", "bench.slurmoverhead", "bench.mpi", "bench.launches", "bench.arrays"),
)


def main() -> None:
    """Run the benchmarks whose names begin with one of the arguments; without arguments all."""
    begins = tuple(f"bench.{word}" for word in sys.argv[1:]) or ("",)
    wanted = [name for name in BENCHMARKS if name.startswith(begins)]
    missed = []
    for name in wanted:
        print(f"--- {name.removeprefix('bench.')}", flush=True)
        if subprocess.run([sys.executable, "-m", name], check=False).returncode:
            missed.append(name)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
