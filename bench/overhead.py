"""Measures the time that the script adds to a program that does nothing, and to one that computes for a minute.

No container runtime is used, so that the figures are the script's own. ``bench.slurmoverhead`` measures the same with a
runtime, in a real batch job.

The time of a minute's computation varies, with the machine's load, by more than the promised hundredth. So the program
reports its own time, and the script's share is measured around it:

* the time before the program begins and after it has ended
* the processor time of all other processes of the tree, which is the most by which they can have held up the program on
  their common core

The minute is measured in two pairs: program and scripted program at the same time on a core each, then with the cores
exchanged.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from bench import processor
from bench.report import Row, write
from router import policy
from router.demo.site import Machine, prepare
from router.gate import judging as gate
from router.host import writing
from router.pod import files as podfiles
from router.pod import layout
from router.policy.decision import QueueStates, Requester
from router.site.schema import Runtime
from router.startup.policyfiles import read_directory
from router.workload import workload_of
from router.workload.cluster import Cluster

RUNS = 10
ROUNDS = 1_700_000_000
"""Rounds of the loop: about a minute on the author's machine. The figures are ratios."""
PROGRAM = """
import time
begun = time.monotonic()
for _ in range({rounds}): pass
print(time.monotonic() - begun, time.process_time())
"""
"""A program that prints its wall time and its processor time."""
USER = "ada"


@dataclass(frozen=True)
class Side:
    """One run, in seconds.

    :param program: the program's wall time, as it reports itself
    :param own: the program's processor time, as it reports itself
    :param around: the time before and after the program
    :param beside: the processor time of all other processes
    """

    wall: float
    program: float
    own: float
    around: float
    beside: float


@dataclass(frozen=True)
class Place:
    """The place and the way in which programs are run.

    :param policy: the policy that sends them to a queue
    :param root: the site's directory, with the Pods' directories below it
    :param python: the interpreter that runs the program
    :param bare: words before a program that is run without the script
    :param read_only: whether the Job makes the container's root read-only
    """

    policy: policy.Policy
    root: Path
    python: str
    bare: tuple[str, ...] = ()
    read_only: bool = False

    def program(self, rounds: int) -> tuple[str, ...]:
        """The command of a program that computes this many rounds."""
        return (self.python, "-S", "-c", PROGRAM.format(rounds=rounds))

    def script_of(self, command: Sequence[str]) -> tuple[tuple[str, ...], Path]:
        """The command that runs a Job's script with ``command`` in a new Pod's directory, and the container's log."""
        directory = written(self.policy, self.root, self.container(command))
        return ("/bin/bash", str(directory.script), str(directory.path)), Path(directory.log("main"))

    def container(self, command: Sequence[str]) -> dict[str, object]:
        """The Job's only container."""
        return {
            "name": "main",
            "image": "busybox:1.36",
            "command": list(command),
            "resources": {"requests": {"cpu": "2"}},
            "securityContext": {"readOnlyRootFilesystem": self.read_only},
        }

    def sides(self, rounds: int, cores: Sequence[int] | None = None) -> tuple[Side, Side]:
        """Run the program without and with the script: one after the other, or at the same time on a core each."""
        command = self.program(rounds)
        scripted, log = self.script_of(command)
        first = processor.begin([*self.bare, *command], cores[0] if cores else None)
        alone = processor.end(first) if cores is None else None
        second = processor.begin(scripted, cores[1] if cores else None)
        bare = alone or processor.end(first)
        return _side(bare, bare.said), _side(processor.end(second), log.read_text())


def _side(spent: processor.Spent, said: str) -> Side:
    """The figures of a run. The program's line is the last, as a runtime may have printed lines before it."""
    wall, own = map(float, said.splitlines()[-1].split())
    return Side(spent.wall, wall, own, spent.wall - wall, spent.processor - own)


def written(
    rules: policy.Policy,
    root: Path,
    container: Mapping[str, object],
    volumes: Sequence[Mapping[str, object]] = (),
    hints: Mapping[str, str] = MappingProxyType({}),
) -> layout.PodDirectory:
    """Make a new Pod's directory below a site's, with the script of a Job that has this container."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bench", "namespace": "default", "annotations": {**hints}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": [*volumes]}}},
    }
    opened = gate.Gate(rules, Cluster(), QueueStates(), None, 0)
    judged = gate.judge(job, requester=Requester(USER, (), "default"), gate=opened)
    assert judged.script is not None, judged.decision
    directory = layout.PodDirectory(str(root), "job", layout.NO_INDEX, uuid.uuid4().hex)
    staged = podfiles.stage(judged.routed["spec"]["template"], workload_of(job, namespace="default"))
    writing.write(directory.path, staged.add(layout.SCRIPT, judged.script.text.encode()))
    return directory


@dataclass(frozen=True)
class Fixed:
    """Medians for a program that does nothing, in seconds: its bare wall time, and the additions by the script."""

    bare: float
    wall: float
    processor: float


def fixed(place: Place) -> Fixed:
    """The time that the script adds to a program that does nothing."""
    short = [place.sides(0) for _ in range(RUNS)]
    return Fixed(
        statistics.median(bare.wall for bare, _ in short),
        statistics.median(scripted.wall - bare.wall for bare, scripted in short),
        statistics.median(scripted.beside - bare.beside for bare, scripted in short),
    )


def figures(place: Place, rounds: int = ROUNDS) -> list[Row]:
    """What the script adds, with its promises."""
    once = fixed(place)
    cores = sorted(os.sched_getaffinity(0))[:2]
    assert len(cores) == 2, "needs two cores"
    pairs = [place.sides(rounds, order) for order in (cores, cores[::-1])]
    minute = statistics.mean(bare.own for bare, _ in pairs)
    # The minimum, as the script's share is in each pair, and other load of the machine seldom in both.
    around = min(scripted.around - bare.around for bare, scripted in pairs) - once.wall
    beside = statistics.mean(scripted.beside - bare.beside for bare, scripted in pairs) - once.processor
    alone = sum(bare.program for bare, _ in pairs)
    longer = sum(scripted.program for _, scripted in pairs) / alone - 1
    return [
        Row("a program that does nothing: without the script", once.bare, "s"),
        Row("the same under the script: added", once.wall, "s", 0.3),
        Row("the same: added, of processor time", once.processor, "s"),
        Row("a program that computes: its processor time", minute, "s"),
        Row("the same under the script: more time before and after it than that", around / minute * 100, "%"),
        Row("the same: more processor time of all else than that", beside / minute * 100, "%"),
        Row("the same: both together", (around + beside) / minute * 100, "%", 1.0),
        Row("the program itself, which the machine's noise is in: longer", longer * 100, "%"),
    ]


def _policy(work: Path) -> policy.Policy:
    directory = work / "policy"
    prepare(Path("examples"), directory, Machine(Runtime.HOST, mpi=None), work)
    return policy.load(read_directory(directory))


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        rows = figures(Place(_policy(work), work / "site", sys.executable))
    sys.exit(not write("overhead", rows))


if __name__ == "__main__":
    main()
