"""Gives the same jobs to a real batch system by hand, through Batchgate, and with small ones in the cloud; and to the model.

``bench.slurmefficiency`` and ``bench.pbsefficiency`` run it. Jobs are drawn by a published model (``bench.lublin``), seconds
for hours. By hand each is a submit command with one ``apptainer exec``. Otherwise it is an ordinary Job, which a user
applies to a real API server at the same moment. The cloud has a real node. All processes share this machine, and they run
also while jobs are given by hand.

Each container notes when it begins and ends. With ``--kill SECONDS`` the jobs are given once more, while the agent and the
batch system's server are killed by turns until the last container has ended. Figures go to a file, beside
those of other seeds with the same options, which the table and the picture show too. With kills, a seed whose figures are
there is not run without them again.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench import drawn
from bench.drawn import Task
from bench.report import DIRECTORY, write
from bench.studypage import Point, kept, picture, point, read, table, written
from bench.ways import Place, by_hand, through
from bench.whole import machine
from router.controlplane import cloudnode, realnode

HAND, THROUGH, SPLIT, KILLED = (
    "by hand",
    "through Batchgate",
    "small ones in the cloud",
    "through Batchgate, with kills",
)
MODEL, MODEL_SPLIT = "model: all to HPC", "model: small ones in the cloud"
LOST_SECONDS = 60
"""After which the agent holds a job that the batch system has forgotten to be lost."""
_AWAY = 3.0
"""Seconds for which what was killed stays away."""


@dataclass(frozen=True)
class Victim:
    """What is killed while Jobs run, and started again."""

    kill: Callable[[], object]
    start: Callable[[], object]


@dataclass(frozen=True)
class Bench:
    """Where a study runs.

    :param victims: the agent, and the batch system's server
    :param repair: ends all trouble
    """

    place: Place
    victims: Sequence[Victim]
    repair: Callable[[], object]


def main(system: str, about: str | None, standing: Callable[[], AbstractContextManager[Bench]]) -> None:
    """Print the table, which is written as figures too.

    :param system: names the files
    :param standing: where the study runs, for as long as it does
    """
    asked = _asked(about)
    asked.plots.mkdir(parents=True, exist_ok=True)
    with standing() as bench:
        name, loads = f"efficiency-{system}-{_name(bench.place, asked)}", machine("before")
        calm, cut_off = asked.plots / f"{name}.json", asked.plots / f"{name}-kill-{asked.kill:g}.json"
        # Not confined: containers in the cloud note their times in the same directory of this machine.
        realnode.start(bench.place.plane, cloudnode.NAME, cloudnode.IMAGES)
        for seed in asked.seeds:
            tasks = _drawn(bench.place, asked, seed)
            if not asked.kill or not _of(calm, seed):
                _keep(calm, seed, _seed(bench, tasks, seed))
            if asked.kill:
                _keep(cut_off, seed, [_killed(bench, tasks, seed, asked.kill)])
                print(table([*_of(calm, seed), *_of(cut_off, seed)]), flush=True)
            loads += (after := machine(f"after seed {seed}"))
            write(f"{system}efficiency-machine", loads, printed=len(loads) - len(after))
    points = _known(calm)
    (asked.plots / f"efficiency-{system}.svg").write_text(picture(points))
    print(f"{table(points)}\n")
    sys.exit(not kept(points, HAND, THROUGH))


def _name(place: Place, asked: argparse.Namespace) -> str:
    """Of the file of figures: all that makes two studies comparable."""
    parts = (asked.jobs, asked.largest, asked.load, asked.hour)
    return f"{place.nodes}x{place.cores}-" + "-".join(f"{part:g}" for part in parts)


def _drawn(place: Place, asked: argparse.Namespace, seed: int) -> list[Task]:
    largest = min(place.cores, asked.largest)
    return drawn.draw(asked.jobs, asked.load, seed, asked.hour, cores=place.all_cores, largest=largest)


def _asked(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"{about}\n{__doc__}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--largest", type=int, default=16, help="cores of a job at most, where a node has as many")
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--hour", type=float, default=5.0, help="seconds for one hour of the model of jobs")
    parser.add_argument("--kill", type=float, default=0.0, help="seconds from one restart to the next kill; 0 for none")
    parser.add_argument(
        "--plots", type=Path, default=DIRECTORY, help="where figures and picture go; docs for those of the page"
    )
    return parser.parse_args()


def _known(file: Path) -> list[Point]:
    """The figures that this run and earlier ones of the same study have left: one seed takes long."""
    return read(file.read_text()) if file.exists() else []


def _of(file: Path, seed: int) -> list[Point]:
    return [one for one in _known(file) if one.seed == seed]


def _keep(file: Path, seed: int, points: Sequence[Point]) -> None:
    """Write a seed's figures, beside those of the others."""
    others = [one for one in _known(file) if one.seed != seed]
    file.write_text(written(sorted([*others, *points], key=lambda one: one.seed)))


def _seed(bench: Bench, tasks: Sequence[Task], seed: int) -> list[Point]:
    """All ways with one seed."""
    hand, held = by_hand(bench.place, tasks, seed, HAND)
    added = held - statistics.fmean([one.seconds for one in tasks])
    print(f"seed {seed}: a job by hand holds its cores for {added:.2f} s more than its container sleeps", flush=True)
    found = [hand, *_model(bench.place, tasks, seed, added)]
    found += [through(bench.place, tasks, seed, way, split=way == SPLIT) for way in (THROUGH, SPLIT)]
    print(table(found), flush=True)
    return found


def _killed(bench: Bench, tasks: Sequence[Task], seed: int, seconds: float) -> Point:
    return through(
        bench.place, tasks, seed, KILLED, split=False, while_they_run=_kills(bench.victims, bench.repair, seconds)
    )


def _model(place: Place, tasks: Sequence[Task], seed: int, added: float) -> Iterator[Point]:
    for way, split in ((MODEL, False), (MODEL_SPLIT, True)):
        queue = drawn.Queue(place.documents, "ada", place.queue, place.nodes, str(place.shared))
        yield point(way, seed, drawn.played(tasks, queue, added, split=split), place.all_cores)


@contextlib.contextmanager
def _kills(victims: Sequence[Victim], repair: Callable[[], object], seconds: float) -> Iterator[None]:
    """Within the block all victims are killed by turns, and started again after some seconds.

    :param seconds: from one's start to the next one's kill
    """
    over = threading.Event()

    def kill() -> None:
        turn = 0
        while not over.wait(seconds):
            victim = victims[turn % len(victims)]
            victim.kill()
            time.sleep(_AWAY)
            victim.start()
            turn += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        repair()
