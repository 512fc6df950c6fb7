"""Runs every benchmark in a process of its own; the exit code is 1 if a promise is missed.

``python -m bench slurm`` runs the benchmarks whose names begin with ``slurm``; one with its options is run as
``python -m bench.recorded --jobs 5000``.
"""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    *("bench.pipeline", "bench.rules", "bench.route", "bench.webhook", "bench.memory", "bench.overhead", "bench.page"),
    *("bench.latency", "bench.burst", "bench.adoption", "bench.many", "bench.users"),
    "bench.apiserver",
    "bench.recorded",
    *("bench.slurm", "bench.slurmoverhead", "bench.mpi", "bench.launches", "bench.arrays"),
)


def main() -> None:
    """Run the benchmarks whose names begin with one of the arguments; without arguments all."""
    for word in sys.argv[1:]:
        if not any(name.startswith(f"bench.{word}") for name in BENCHMARKS):
            sys.exit(
                f"Error: no benchmark's name begins with {word!r}; give options to one itself: python -m bench.NAME"
            )
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
