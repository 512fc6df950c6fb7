"""Compares one ``sbatch --array`` with as many ``sbatch`` on the bed's Slurm, without a cluster or an agent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bed.daemons import controller, running
from bench.onbed import starting_nothing
from bench.report import Row
from bench.whole import run, until
from router.hpc import slurm
from tests.agent.bed.site import ADA, LAYOUT, QUEUE, as_user

SECONDS = 1800.0
_NAME = "bare-array"
_LOOP = 'for ((n = 0; n < $0; n++)); do "$@" || exit; done'
_RPC = re.compile(r"\s*\w+\s+\(\s*\d+\)\s+count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What Slurm's controller has done so far: remote calls, the seconds they took, and processor seconds."""

    calls: int
    busy: float
    processor: float

    def since(self, earlier: Load) -> Load:
        """What it has done since then."""
        return Load(self.calls - earlier.calls, self.busy - earlier.busy, self.processor - earlier.processor)


@dataclass(frozen=True)
class Cost:
    """Seconds of the submission and of a list of the waiting jobs, and the controller's load of the submission."""

    seconds: float
    listed: float
    load: Load


def on_slurm(count: int) -> list[Row]:
    """All figures of both kinds of submission, for ``count`` jobs of one ``true``."""
    kinds = {"one by one": _singly, "as an array": _array}
    rows: list[Row] = []
    costs, ends = {}, {}
    with _directory() as place:
        for name, submit in kinds.items():
            with starting_nothing():
                costs[name] = _cost(submit, place, count)
            ends[name] = _end(submit, place, count)
    for name in kinds:
        rows += _rows(f"{count} jobs of sbatch {name}", costs[name], ends[name])
    single, array = (costs[name] for name in kinds)
    return [
        *rows,
        Row("one by one, times an array: seconds of the submission", single.seconds / array.seconds, ""),
        Row("one by one, times an array: to the last end", ends["one by one"] / ends["as an array"], ""),
    ]


def _rows(name: str, cost: Cost, ended: float) -> list[Row]:
    return [
        Row(f"{name}: submission", cost.seconds, "s"),
        Row(f"{name}: remote calls of slurmctld meanwhile", cost.load.calls, ""),
        Row(f"{name}: seconds of these calls", cost.load.busy, "s"),
        Row(f"{name}: processor time of slurmctld", cost.load.processor, "s"),
        Row(f"{name}: the agent's squeue, while all wait", cost.listed, "s"),
        Row(f"{name}: open queue, to the end of the last", ended, "s"),
    ]


def _cost(submit: Callable[[Path, int], None], place: Path, count: int) -> Cost:
    before, begun = _load(), time.monotonic()
    submit(place, count)
    seconds = time.monotonic() - begun
    load = _load().since(before)
    begun = time.monotonic()
    run([*as_user(ADA), *slurm.states_argv(ADA)])
    listed = time.monotonic() - begun
    run(["scancel", f"--name={_NAME}"])
    _await_none()
    return Cost(seconds, listed, load)


def _end(submit: Callable[[Path, int], None], place: Path, count: int) -> float:
    """Seconds from the first submission until none of the jobs waits or runs."""
    begun = time.monotonic()
    submit(place, count)
    _await_none()
    return time.monotonic() - begun


def _await_none() -> None:
    asked = ["squeue", "--noheader", f"--name={_NAME}", "--format=%i"]
    until(lambda: not run(asked).strip(), "the end of all jobs", SECONDS, pause=0.5)


def _singly(place: Path, count: int) -> None:
    run([*as_user(ADA), "bash", "-c", _LOOP, str(count), *_argv(place)])


def _array(place: Path, count: int) -> None:
    run([*as_user(ADA), *_argv(place, f"--array=0-{count - 1}")])


def _argv(place: Path, *more: str) -> Sequence[str]:
    fixed = ("--parsable", "--export=NONE", f"--job-name={_NAME}", f"--chdir={place}", "--output=/dev/null")
    return ("sbatch", *fixed, f"--partition={QUEUE}", "--ntasks=1", "--mem=10", "--time=5", *more, f"{place}/script")


def _load() -> Load:
    calls = [(int(count), int(total)) for count, total in _RPC.findall(_by_type(run(["sdiag"])))]
    fields = Path(f"/proc/{running(LAYOUT, controller())}/stat").read_text().rpartition(")")[2].split()
    processor = sum(int(field) for field in fields[11:13]) / _TICKS
    return Load(sum(count for count, _ in calls), sum(total for _, total in calls) / 1e6, processor)


def _by_type(text: str) -> str:
    """The part of what ``sdiag`` prints that counts each call once: by type of message, in microseconds."""
    return text.partition("by message type")[2].partition("by user")[0]


@contextmanager
def _directory() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="arrays-", dir=LAYOUT.work / ADA))
    try:
        (place / "script").write_text("#!/bin/sh\ntrue\n")
        shutil.chown(place, ADA, ADA)
        shutil.chown(place / "script", ADA, ADA)
        yield place
    finally:
        subprocess.run(["scancel", f"--name={_NAME}"], check=False)
        shutil.rmtree(place)
