"""Measures launches of ranks in a container's shell text over nodes, against the same text with ``mpirun … apptainer``.

The bed has to be up (``make bed``, docs/bed.md). Each run is a job of its own, with the directives of the Job's script.
The text typed by hand is the same, but that each launcher starts Apptainer with the image. It is what a user who knows
the site would write: the same ranks, binding, transport, and writable root of each rank's container.

Reported are both launches of a text, as the first meets cold caches: the seconds from the call until all ranks have
started, and those of the whole launch. ``--steps`` makes the program (``bench/halo.c``) work between.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mpi import NAME, SHARED_MEMORY, TRANSPORT, MpiSite, submitted
from bench.onbed import ROOT, demand_standing
from bench.overhead import written
from bench.report import Row, write
from bench.whole import machine, run
from router import names
from router.pod import layout
from router.policy import Policy, load
from router.startup.policyfiles import read_directory
from tests.agent.bed.site import ADA, LAYOUT, LOCAL, SITE, TALLY

PAIRS = 10
BOUND = 1.2
_NODES, _RANKS, _LAUNCHES = 4, 8, 2
_CLUSTER = "0" * 8
_ROOT = ("--no-home", "--writable-tmpfs")
"""What gives a rank by hand the writable root that the script gives it."""


@dataclass(frozen=True)
class Launch:
    """Seconds from a launcher's call: until all ranks had started, until their work was done, until its end."""

    started: float
    done: float
    ended: float


@dataclass(frozen=True)
class Bench:
    """The place of the runs: a site's directory, its policy, the program and its steps."""

    home: Path
    policy: Policy
    program: Path
    steps: int

    def by_hand(self) -> list[Launch]:
        """The launches of the text as a user would type it in a batch script."""
        runtime = ["apptainer", "--quiet", "exec", *_ROOT, "--bind", str(TALLY), str(LAYOUT.image)]
        # SLURM_EXPORT_ENV, as jobs are submitted with --export=NONE here, which mpirun's srun would obey.
        exported = TRANSPORT | SHARED_MEMORY | {"SLURM_EXPORT_ENV": "ALL"}
        lines = [f"export {name}={value}" for name, value in exported.items()]
        directory = self._directory()
        return self._launches(directory, [*lines, self._text(*runtime)], Path(directory.path) / "said")

    def by_script(self) -> list[Launch]:
        """The launches of the text in a Job's container, its script submitted as by the agent."""
        directory = self._directory()
        line = shlex.join(["/bin/bash", str(directory.script), str(directory.path)])
        return self._launches(directory, [line], Path(directory.log("main")))

    def _text(self, *runtime: str) -> str:
        options = ["--bind-to", "none"] if runtime else []
        launch = shlex.join(["mpirun", "-np", str(_RANKS), *options, *runtime, str(self.program), str(self.steps)])
        clock = 'echo "$EPOCHREALTIME"'
        return "\n".join([clock, f"{launch} | cat", clock] * _LAUNCHES)

    def _directory(self) -> layout.PodDirectory:
        container = {
            "name": "main",
            "image": "solver:1",
            "command": ["bash", "-c", self._text()],
            "resources": {"requests": {"cpu": str(_RANKS), "memory": "4Gi"}},
            "volumeMounts": [{"name": "tally", "mountPath": str(TALLY)}],
        }
        volumes = [{"name": "tally", "hostPath": {"path": str(TALLY)}}]
        hints = {names.HINT_RANKS: str(_RANKS), names.HINT_NODES: str(_NODES)}
        return written(self.policy, self.home / "site", container, volumes, hints)

    def _launches(self, directory: layout.PodDirectory, lines: Sequence[str], said: Path) -> list[Launch]:
        submitted(self.home, directory, lines)
        found = [line.split() for line in said.read_text().splitlines()]
        try:
            return [_launch(*found[3 * number : 3 * number + 3]) for number in range(_LAUNCHES)]
        except (TypeError, ValueError) as error:
            raise SystemExit(f"a launch has failed: {said.read_text(errors='replace')}") from error


def _launch(called: list[str], program: list[str], over: list[str]) -> Launch:
    (begun,), (size, started, done, _), (ended,) = called, program, over
    assert int(size) == _RANKS, size
    return Launch(float(started) - float(begun), float(done) - float(begun), float(ended) - float(begun))


def _pairs(bench: Bench, count: int) -> list[tuple[list[Launch], list[Launch]]]:
    """Run pairs by hand and by script, in alternating order."""
    found = []
    for number in range(count):
        if number % 2:
            scripted = bench.by_script()
            hand = bench.by_hand()
        else:
            hand = bench.by_hand()
            scripted = bench.by_script()
        found.append((hand, scripted))
        print(f"{number + 1}: by hand {hand}, by the script {scripted}", file=sys.stderr, flush=True)
    return found


def _rows(pairs: list[tuple[list[Launch], list[Launch]]]) -> list[Row]:
    rows = []
    for number in range(_LAUNCHES):
        hands, scripts = zip(*((hand[number], scripted[number]) for hand, scripted in pairs), strict=True)
        which = f"launch {number + 1} of {_LAUNCHES}"
        for what, words, bound in (("started", "until all ranks have started", BOUND), ("ended", "the whole", None)):
            by_hand, by_script = ([getattr(one, what) for one in side] for side in (hands, scripts))
            ratio = statistics.median(by_script) / statistics.median(by_hand)
            rows.append(Row(f"{which}, {words}: by hand", statistics.median(by_hand), "s"))
            rows.append(Row("the same in a container's text, to that", ratio, "", bound))
    return rows


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--steps", type=int, default=1, help="of the program")
    asked = parser.parse_args()
    demand_standing()
    before = machine("before")
    site = MpiSite(LOCAL, Path(layout.site_directory(str(LAYOUT.work / "{user}"), ADA, SITE, _CLUSTER)))
    run(["rm", "-rf", str(site.home)])
    site.make()
    program = TALLY / NAME
    try:
        run(["mpicc", "-std=c11", "-O2", "-Wall", "-o", str(program), str(ROOT / "bench" / "halo.c"), "-lm"])
        program.chmod(0o755)
        rows = _rows(_pairs(Bench(site.home, load(read_directory(site.policy)), program, asked.steps), asked.pairs))
    finally:
        run(["scancel", f"--user={ADA}", f"--name={NAME}"])
        shutil.rmtree(site.home, ignore_errors=True)
        program.unlink(missing_ok=True)
    sys.exit(not write("launches", [*before, *rows, *machine("after")]))


if __name__ == "__main__":
    main()
