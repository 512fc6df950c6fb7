"""Measures a command: wall seconds until it ends, and processor seconds of all its processes, with those left behind.

This is a program of its own, which measures one command and prints the result. It becomes the parent of orphaned
processes (prctl(2), PR_SET_CHILD_SUBREAPER), so that its children's times are complete, and two of these programs can
measure at the same time.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

_SUBREAPER = 36
_SECONDS = 60.0
"""Longest wait for the end of processes that a command leaves behind."""
_PAUSE = 0.01


@dataclass(frozen=True)
class Spent:
    """Seconds of one command, and its output. ``processor`` is the time of all processes together."""

    wall: float
    processor: float
    said: str


def begin(argv: Sequence[str], core: int | None = None) -> subprocess.Popen[str]:
    """Start to measure a command, which is bound to this core if one is given; ``end`` waits for it."""
    pinned = () if core is None else ("taskset", "-c", str(core))
    return subprocess.Popen(
        [*pinned, sys.executable, "-m", "bench.processor", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(running: subprocess.Popen[str]) -> Spent:
    """Wait for the command's end; returns its figures. If it failed, the program ends."""
    said, complaints = running.communicate()
    if running.returncode:
        raise SystemExit(f"{running.args!r}: exit code {running.returncode}: {complaints}")
    return Spent(**json.loads(said))


def main() -> None:
    """Measure the command in the arguments."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    begun = time.perf_counter()
    done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - begun
    _await_rest()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps(asdict(Spent(wall, spent.ru_utime + spent.ru_stime, done.stdout))))


def _await_rest() -> None:
    """Wait until all processes of the command have ended."""
    until = time.monotonic() + _SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_PAUSE)
        raise SystemExit(f"what {sys.argv[1]} left behind has not ended in {_SECONDS:.0f} s")


if __name__ == "__main__":
    main()
