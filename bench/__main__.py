"""Run every benchmark, each in a process of its own; exit code 1 where a promise is missed."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    *("bench.pipeline", "bench.rules", "bench.route", "bench.webhook", "bench.memory", "bench.overhead"),
    *("bench.latency", "bench.burst", "bench.adoption", "bench.many"),
)


def main() -> None:
    """Run what the arguments name, or all."""
    wanted = [name for name in BENCHMARKS if not sys.argv[1:] or name.removeprefix("bench.") in sys.argv[1:]]
    missed = []
    for name in wanted:
        print(f"--- {name.removeprefix('bench.')}", flush=True)
        if subprocess.run([sys.executable, "-m", name], check=False).returncode:
            missed.append(name)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
