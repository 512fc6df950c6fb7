"""What a command takes: wall seconds until it ends, processor seconds of its processes and of all that they leave behind.

A program of its own, which measures one command and prints what it found: it becomes the parent of whatever loses its
own (prctl(2), PR_SET_CHILD_SUBREAPER), so that nothing is missing in what its children took, and two of them can measure
at the same time.
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
"""For what a command leaves behind to end."""
_PAUSE = 0.01


@dataclass(frozen=True)
class Spent:
    """Seconds of one command, and what it printed. ``processor`` is that of all processes together."""

    wall: float
    processor: float
    said: str


def begin(argv: Sequence[str], core: int | None = None) -> subprocess.Popen[str]:
    """Start to measure a command, which then has this core alone; ``end`` waits for it."""
    pinned = () if core is None else ("taskset", "-c", str(core))
    return subprocess.Popen(
        [*pinned, sys.executable, "-m", "bench.processor", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(running: subprocess.Popen[str]) -> Spent:
    """What the command took; ends the program where it failed."""
    said, complaints = running.communicate()
    if running.returncode:
        raise SystemExit(f"{running.args!r}: exit code {running.returncode}: {complaints}")
    return Spent(**json.loads(said))


def main() -> None:
    """Measure the command that the arguments are."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    begun = time.perf_counter()
    done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.perf_counter() - begun
    _await_rest()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps(asdict(Spent(wall, spent.ru_utime + spent.ru_stime, done.stdout))))


def _await_rest() -> None:
    """Until no process is left of what was started."""
    until = time.monotonic() + _SECONDS
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_PAUSE)
        raise SystemExit(f"what {sys.argv[1]} left behind has not ended in {_SECONDS:.0f} s")


if __name__ == "__main__":
    main()
