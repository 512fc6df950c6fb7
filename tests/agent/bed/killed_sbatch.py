"""A fake in front of sbatch, for the tests that kill it: it runs the real one, and kills it at a planned moment.

It is installed where commands are looked for before the real one, runs as whoever submits, and knows nothing of this
project. A plan is a directory of files, one a submission, in the order of their names: ``KIND SECONDS``. Each submission
takes the next one by a rename, and adds how far the real one came:

* ``pass``: nothing happens to it;
* ``before``: killed before it has begun;
* ``kill``: killed so many seconds after its start, with the real one where that still runs, and else when that has its
  answer, which nobody gets;
* ``wrapped``: the same, but what was killed is the child of a script, which says so by its exit code.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.agent.bed.site import LAYOUT

PASS, BEFORE, KILL, WRAPPED = "pass", "before", "kill", "wrapped"
PLAN: Final = LAYOUT.shared / "killed-sbatch"
_PLACE: Final = Path("/usr/local/bin/sbatch")
"""Comes before /usr/bin in the search path that the agent gives to Slurm's commands."""
_REAL: Final = "/usr/bin/sbatch"
_TAKEN: Final = ".taken"
_TEXT: Final = f'''#!/usr/bin/python3 -I
"""Written by a test of Batchgate, and taken away at its end: runs {_REAL}, and kills it as planned in {PLAN}."""
import os, signal, subprocess, sys


def take():
    for name in sorted(os.listdir("{PLAN}")):
        if not name.endswith("{_TAKEN}"):
            path = os.path.join("{PLAN}", name)
            try:
                os.rename(path, path + "{_TAKEN}")
            except FileNotFoundError:
                continue
            return path + "{_TAKEN}"
    return None


def tell(taken, words):
    with open(taken, "a") as file:
        file.write(" " + words)


def killed(kind):
    if kind == "{WRAPPED}":
        os._exit(128 + signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


taken = take()
real = ["{_REAL}", *sys.argv[1:]]
if taken is None:
    os.execv(real[0], real)
with open(taken) as file:
    kind, seconds = file.read().split()
if kind == "{PASS}":
    os.execv(real[0], real)
if kind == "{BEFORE}":
    tell(taken, "not-begun")
    killed(kind)
child = subprocess.Popen(real, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
try:
    child.wait(float(seconds))
    tell(taken, "answered" if child.returncode == 0 else "refused")
except subprocess.TimeoutExpired:
    child.kill()
    tell(taken, "cut")
killed(kind)
'''


@contextlib.contextmanager
def killing(rng: random.Random, kills: int) -> Iterator[None]:
    """Let so many of the next submissions be killed, among others that are not."""
    assert not _PLACE.exists(), f"{_PLACE} is there already"
    plan = [*rng.choices((BEFORE, KILL, WRAPPED), (1, 5, 2), k=kills), *([PASS] * (kills // 2))]
    rng.shuffle(plan)
    PLAN.mkdir()
    try:
        PLAN.chmod(0o777)  # renamed by any user
        for number, kind in enumerate(plan):
            path = PLAN / f"{number:04}"
            # From a millisecond, when nothing has been sent yet, to a third of a second, when all is over.
            path.write_text(f"{kind} {10 ** rng.uniform(-3, -0.5):.4f}")
            path.chmod(0o666)
        _PLACE.write_text(_TEXT)
        _PLACE.chmod(0o755)
        yield
    finally:
        _PLACE.unlink(missing_ok=True)
        shutil.rmtree(PLAN)


def left() -> int:
    """How many submissions of the plan have not come yet."""
    return sum(not path.name.endswith(_TAKEN) for path in PLAN.iterdir())


def met() -> Counter[str]:
    """How far the real ones came that were killed, or whose answer was lost."""
    words = [path.read_text().split() for path in PLAN.iterdir() if path.name.endswith(_TAKEN)]
    return Counter(one[2] for one in words if len(one) > 2)
