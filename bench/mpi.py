"""Measures the time that the script adds to an MPI program with two ranks, against ``mpirun … apptainer exec …``.

The bed has to be up (``make bed``, docs/bed.md); without it this is skipped. Each run is a job of its own in the bed's
Slurm, with the script's directives. The command is typed by hand as by a user who knows the site: the same ranks,
binding, environment and transport. The two ways alternate, and each pair has the other order than the one before. So a
machine that becomes slower or faster favours neither.

The program (``bench/halo.c``) computes and communicates for about a minute, and prints when all its ranks had started
and when they had done their work. The times before (start-up) and after (end) are reported separately.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bench.onbed import ROOT, demand_standing
from bench.overhead import written
from bench.report import Row, write
from bench.whole import machine, run
from router.pod import layout
from router.policy import Policy, load
from router.startup.policyfiles import read_directory
from tests.agent.bed.site import ADA, LAYOUT, LOCAL, SITE, TALLY, BedSite, as_user

T = TypeVar("T")
PAIRS = 10
STEPS = 170_000
"""Steps of the program: about a minute on the author's machine. The figures are ratios."""
BOUND = 1.02
NAME = "batchgate-bench"
"""The name of the jobs."""
_RANKS = 2
_CLUSTER = "0" * 8
TRANSPORT = {"OMPI_MCA_btl_tcp_if_include": "lo"}
"""All of the bed's nodes are one machine, and only its loopback network is sure to exist."""
SHARED_MEMORY = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
"""Without it each rank's runtime keeps the other from reading its memory; a user sees the error, and sets this."""
_LIMIT_SECONDS = 900
_PAUSE = 0.2


class MpiSite(BedSite):
    """The bed with an MPI profile."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        found["sites.yaml"]["sites"][0]["mpi"] = [{"name": "open-mpi", "launcher": "openmpi", "env": TRANSPORT}]
        return found


@dataclass(frozen=True)
class Times:
    """Seconds of one run: until all ranks had started, for their work, and from then until the command's end."""

    start: float
    work: float
    end: float

    @property
    def whole(self) -> float:
        """Seconds of the whole command."""
        return self.start + self.work + self.end


@dataclass(frozen=True)
class Place:
    """Where runs are made: a site's directory, its policy, and the program, which is compiled there."""

    home: Path
    policy: Policy
    program: Path


@dataclass(frozen=True)
class Bench:
    """The place of the runs, and the program's steps."""

    place: Place
    steps: int

    def by_hand(self) -> Times:
        """Run the command as a user would type it."""
        directory = self._directory()
        variables = [word for name in (*TRANSPORT, *SHARED_MEMORY) for word in ("-x", name)]
        exports = [f"export {name}={value}" for name, value in (TRANSPORT | SHARED_MEMORY).items()]
        launcher = ["mpirun", "-np", str(_RANKS), "--bind-to", "none", *variables]
        runtime = ["apptainer", "--quiet", "exec", "--bind", str(TALLY), str(LAYOUT.image)]
        lines = [*exports, shlex.join([*launcher, *runtime, *self._words()])]
        return self._submitted(directory, lines, Path(directory.path) / "said")

    def by_script(self) -> Times:
        """Run the script of a Job, as the agent would submit it."""
        directory = self._directory()
        line = shlex.join(["/bin/bash", str(directory.script), str(directory.path)])
        return self._submitted(directory, [line], Path(directory.log("main")))

    def _words(self) -> list[str]:
        return [str(self.place.program), str(self.steps)]

    def _directory(self) -> layout.PodDirectory:
        """A new Pod's directory. Both ways need one, as the directives are in its script."""
        container = {
            "name": "main",
            "image": "solver:1",
            "command": ["mpirun", "-np", str(_RANKS), *self._words()],
            "resources": {"requests": {"cpu": str(_RANKS), "memory": "1Gi"}},
            "volumeMounts": [{"name": "tally", "mountPath": str(TALLY)}],
        }
        volumes = [{"name": "tally", "hostPath": {"path": str(TALLY)}}]
        return written(self.place.policy, self.place.home / "site", container, volumes)

    def _submitted(self, directory: layout.PodDirectory, lines: Sequence[str], said: Path) -> Times:
        begun, ended = submitted(self.place.home, directory, lines)
        try:
            size, started, done, _ = said.read_text().splitlines()[-1].split()
        except (OSError, ValueError, IndexError) as error:
            raise SystemExit(f"the job has failed: {error}: {_said(directory)}") from error
        assert int(size) == _RANKS, size
        return Times(float(started) - begun, float(done) - float(started), ended - float(done))


def submitted(home: Path, directory: layout.PodDirectory, lines: Sequence[str]) -> tuple[float, float]:
    """Run lines in a job with the directives of the directory's script; returns when they began and ended.

    What they print is in the file ``said`` of the directory.
    """
    place = Path(directory.path)
    script, output = place / "timed", place / "said"
    directives = [line for line in Path(directory.script).read_text().splitlines() if line.startswith("#SBATCH ")]
    clock = "echo $EPOCHREALTIME >&3"
    script.write_text("\n".join(["#!/bin/bash", *directives, "exec 3>times", clock, *lines, clock, ""]))
    run(["chown", "-R", f"{ADA}:{ADA}", str(home / "site")])
    places = [f"--chdir={place}", f"--output={output}", f"--job-name={NAME}"]
    batch_job = run([*as_user(ADA), "sbatch", "--parsable", "--export=NONE", *places, str(script)]).strip()
    _await_end(batch_job)
    try:
        begun, ended = map(float, (place / "times").read_text().split())
    except (OSError, ValueError) as error:
        raise SystemExit(f"job {batch_job} has failed: {error}: {_said(directory)}") from error
    return begun, ended


def _said(directory: layout.PodDirectory) -> str:
    output = Path(directory.path) / "said"
    return output.read_text(errors="replace") if output.exists() else ""


def _await_end(batch_job: str) -> None:
    until = time.monotonic() + _LIMIT_SECONDS
    while run(["squeue", "--noheader", "--states=PENDING,RUNNING,COMPLETING", f"--jobs={batch_job}"]).strip():
        if time.monotonic() > until:
            raise SystemExit(f"job {batch_job} has not ended in {_LIMIT_SECONDS} s")
        time.sleep(_PAUSE)


def pairs(by_hand: Callable[[], T], by_script: Callable[[], T], count: int) -> list[tuple[T, T]]:
    """Run pairs by hand and by script, in alternating order."""
    found = []
    for number in range(count):
        if number % 2:
            scripted = by_script()
            hand = by_hand()
        else:
            hand = by_hand()
            scripted = by_script()
        found.append((hand, scripted))
        print(f"{number + 1}: by hand {hand}, by the script {scripted}", file=sys.stderr, flush=True)
    return found


@contextmanager
def place() -> Iterator[Place]:
    """A new site on the bed, with the program; taken away afterwards, with its jobs."""
    site = MpiSite(LOCAL, Path(layout.site_directory(str(LAYOUT.work / "{user}"), ADA, SITE, _CLUSTER)))
    run(["rm", "-rf", str(site.home)])
    site.make()
    program = TALLY / NAME
    try:
        run(["mpicc", "-std=c11", "-O2", "-Wall", "-o", str(program), str(ROOT / "bench" / "halo.c"), "-lm"])
        program.chmod(0o755)
        yield Place(site.home, load(read_directory(site.policy)), program)
    finally:
        run(["scancel", f"--user={ADA}", f"--name={NAME}"])
        shutil.rmtree(site.home, ignore_errors=True)
        program.unlink(missing_ok=True)


def _rows(pairs: list[tuple[Times, Times]]) -> list[Row]:
    ratios = [scripted.work / hand.work for hand, scripted in pairs]
    wholes = [scripted.whole / hand.whole for hand, scripted in pairs]

    def medians(what: str) -> tuple[float, float]:
        hands, scripts = zip(*pairs, strict=True)
        by_hand, by_script = ([getattr(one, what) for one in side] for side in (hands, scripts))
        return statistics.median(by_hand), statistics.median(by_script)

    rows = [Row(f"{_RANKS} ranks that compute and talk, by hand: their work", medians("work")[0], "s")]
    rows.append(Row("the same by the script, to that: median of the pairs", statistics.median(ratios), "", BOUND))
    rows += [
        Row(f"the {word} of these ratios", value, "") for word, value in (("least", min(ratios)), ("most", max(ratios)))
    ]
    for what, words in (
        ("start", "until all ranks have started"),
        ("end", "from their last work to the command's end"),
    ):
        hand, script = medians(what)
        rows += [Row(f"{words}: by hand", hand, "s"), Row("the same: by the script", script, "s")]
    return [*rows, Row("the whole command by the script, to that by hand", statistics.median(wholes), "")]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the program")
    asked = parser.parse_args()
    demand_standing()
    before = machine("before")
    with place() as found:
        bench = Bench(found, asked.steps)
        rows = _rows(pairs(bench.by_hand, bench.by_script, asked.pairs))
    sys.exit(not write("mpi", [*before, *rows, *machine("after")]))


if __name__ == "__main__":
    main()
