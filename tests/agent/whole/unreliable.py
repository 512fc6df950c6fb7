"""A fake in front of the embedded queue's commands: everything goes through to the real one, but submissions may fail.

``python -m tests.agent.whole.unreliable FAULTS qsub …`` looks into the directory FAULTS for the next fault, a file
``<number>.<kind>``, which it takes away by a rename, and does what its kind says:

* ``die-before``: is killed before it has asked the queue;
* ``die-after``: is killed when the queue has taken the job, before anybody has read the job's id;
* ``lost``: the job is taken, and the answer is a connection that broke (OpenPBS' exit code 162, no id);
* ``slow``: the job is taken at once, and the answer comes when whoever asked has long given up;
* ``late``: says nothing until whoever asked has long given up, and is taken by the queue only then, by a process that
  lives on: the request is under way and cannot be called back.

It is the one part of these tests that is not real, because no real queue fails on demand.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DIE_BEFORE, DIE_AFTER, LOST, SLOW, LATE = "die-before", "die-after", "lost", "slow", "late"
_REAL = [sys.executable, "-m", "router.local"]
_MET = ".met"
_UNREACHABLE = "qsub: cannot connect to server local (errno=15010)"


def plan(directory: Path, kind: str, *, times: int = 1, seconds: float = 0) -> None:
    """Let the next submissions fail in this way. ``seconds`` is how late ``slow`` and ``late`` are."""
    taken = len(list(directory.iterdir()))
    for number in range(taken, taken + times):
        (directory / f"{number:04}.{kind}").write_text(str(seconds))


def forget(directory: Path) -> None:
    """Let no further submission fail."""
    for path in directory.iterdir():
        if not path.name.endswith(_MET):
            path.unlink(missing_ok=True)


def met(directory: Path) -> list[str]:
    """The kinds of faults that submissions have met so far."""
    return [path.name.split(".")[1] for path in sorted(directory.iterdir()) if path.name.endswith(_MET)]


def _next(directory: Path) -> tuple[str, float]:
    """The fault for this submission, and its seconds; no other process gets the same."""
    for path in sorted(directory.iterdir()):
        if path.name.endswith(_MET):
            continue
        mine = path.with_name(f"{path.name}{_MET}")
        try:
            path.rename(mine)
        except FileNotFoundError:
            continue
        return path.name.split(".")[1], float(mine.read_text())
    return "", 0.0


def _submit(words: list[str], kind: str, seconds: float) -> int:
    if kind == DIE_BEFORE:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == LATE:
        # A session of its own, and no pipe of ours: whoever kills this command does not reach it.
        waiting = f"import subprocess, sys, time; time.sleep({seconds}); subprocess.run(sys.argv[1:])"
        subprocess.Popen(
            [sys.executable, "-c", waiting, *_REAL, *words],
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(seconds + 60)
    done = subprocess.run([*_REAL, *words], capture_output=True, text=True, check=False)
    if kind == DIE_AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == SLOW:
        time.sleep(seconds)
    if kind == LOST:
        print(_UNREACHABLE, file=sys.stderr)  # noqa: T201 - the command's own output
        return 162
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def main(faults: str, *words: str) -> int:
    """One command of the batch system."""
    kind, seconds = _next(Path(faults)) if words[:1] == ("qsub",) else ("", 0.0)
    if not kind:
        os.execv(_REAL[0], [*_REAL, *words])
    return _submit(list(words), kind, seconds)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
