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
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.mpi import SHARED_MEMORY, TRANSPORT, Place, pairs, place, submitted
from bench.onbed import demand_standing
from bench.overhead import written
from bench.report import Row, write
from bench.whole import machine
from router import names
from router.pod import layout
from tests.agent.bed.site import LAYOUT, TALLY

PAIRS = 10
BOUND = 1.2
_NODES, _RANKS, _LAUNCHES = 4, 8, 2
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
    """The place of the runs, and the program's steps."""

    place: Place
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
        launch = shlex.join(
            ["mpirun", "-np", str(_RANKS), *options, *runtime, str(self.place.program), str(self.steps)]
        )
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
        return written(self.place.policy, self.place.home / "site", container, volumes, hints)

    def _launches(self, directory: layout.PodDirectory, lines: Sequence[str], said: Path) -> list[Launch]:
        submitted(self.place.home, directory, lines)
        found = [line.split() for line in said.read_text().splitlines()]
        try:
            return [_launch(*found[3 * number : 3 * number + 3]) for number in range(_LAUNCHES)]
        except (TypeError, ValueError) as error:
            raise SystemExit(f"a launch has failed: {said.read_text(errors='replace')}") from error


def _launch(called: list[str], program: list[str], over: list[str]) -> Launch:
    (begun,), (size, started, done, _), (ended,) = called, program, over
    assert int(size) == _RANKS, size
    return Launch(float(started) - float(begun), float(done) - float(begun), float(ended) - float(begun))


def _rows(found: list[tuple[list[Launch], list[Launch]]]) -> list[Row]:
    rows = []
    for number in range(_LAUNCHES):
        hands, scripts = zip(*((hand[number], scripted[number]) for hand, scripted in found), strict=True)
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
    with place() as found:
        bench = Bench(found, asked.steps)
        rows = _rows(pairs(bench.by_hand, bench.by_script, asked.pairs))
    sys.exit(not write("launches", [*before, *rows, *machine("after")]))


if __name__ == "__main__":
    main()
