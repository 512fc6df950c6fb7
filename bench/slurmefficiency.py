"""Gives the same jobs to the bed's Slurm by hand, through Batchgate, and with small ones in the cloud; and to the model.

``python -m bench.slurmefficiency`` draws jobs by a published model (``bench.lublin``), seconds for hours. By hand each is an
``sbatch`` with one ``apptainer exec``. Otherwise it is an ordinary Job, which a user applies to a real API server at the same
moment. The cloud has a real node. All processes share this machine, and they run also while jobs are given by hand.

Each container notes when it begins and ends. With ``--kill SECONDS`` the jobs are given once more, while the agent and
slurmctld are killed by turns until the last container has ended. A slurmctld that has just written a job's end to its
database, and not yet to its state, holds the job for running when it comes back, until it asks the nodes. The bed has to
be up (``make bed``, docs/bed.md); without it this is skipped. Figures go to a file of build/bench, beside those of other
seeds with the same options, which the table and the picture show too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bench import slurmtasks
from bench.onbed import OnBed, demand_standing, on_bed
from bench.report import DIRECTORY
from bench.slurmpage import Point, kept, picture, point, table
from bench.slurmtasks import Task
from bench.slurmways import CORES, CORES_OF_A_NODE, NODES_OF_THE_BED, ON_HPC, Site, by_hand, through
from bench.whole import machine
from router.controlplane import cloudnode, realnode
from tests.agent.bed import faults
from tests.agent.bed.site import OWN_KEYS, TALLY

HAND, THROUGH, SPLIT, KILLED = (
    "by hand",
    "through Batchgate",
    "small ones in the cloud",
    "through Batchgate, with kills",
)
MODEL, MODEL_SPLIT = "model: all to HPC", "model: small ones in the cloud"
LOST_SECONDS = 60
"""After which the agent holds a job that Slurm has forgotten to be lost."""
_AWAY = 3.0
"""Seconds for which what was killed stays away."""


def main() -> None:
    """Print the table, which is written as figures too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--hour", type=float, default=5.0, help="seconds for one hour of the model of jobs")
    parser.add_argument("--kill", type=float, default=0.0, help="seconds from one kill to the next; 0 for none")
    parser.add_argument(
        "--plots", type=Path, default=DIRECTORY, help="where the picture goes; docs for that of the page"
    )
    asked = parser.parse_args()
    demand_standing()
    points, loads = _earlier(asked), machine("before")
    with on_bed(OWN_KEYS, raised_limits=False, kind=Site, plain_node=False, lost_seconds=LOST_SECONDS) as bed:
        # Not confined: containers in the cloud note their times in the same directory of this machine.
        realnode.start(bed.stack.plane, cloudnode.NAME, cloudnode.IMAGES)
        for seed in asked.seeds:
            tasks = slurmtasks.drawn(
                asked.jobs, asked.load, seed, asked.hour, nodes=NODES_OF_THE_BED, cores=CORES_OF_A_NODE
            )
            points += _seed(bed, tasks, seed, asked.kill)
            loads += machine(f"after seed {seed}")
            found = {"points": [asdict(one) for one in points], "machine": [asdict(one) for one in loads]}
            DIRECTORY.mkdir(parents=True, exist_ok=True)
            _file(asked).write_text(json.dumps(found, indent=1) + "\n")
    (asked.plots / "efficiency-slurm.svg").write_text(picture(points))
    print(f"{table(points)}\n")
    sys.exit(not kept(points, HAND, THROUGH))


def _file(asked: argparse.Namespace) -> Path:
    """Where the figures of a study are: one file for all seeds with the same options, as one seed takes long."""
    return DIRECTORY / f"slurmefficiency-{asked.jobs}-{asked.load:g}-{asked.hour:g}-{asked.kill:g}.json"


def _earlier(asked: argparse.Namespace) -> list[Point]:
    """The figures of other seeds that earlier runs of the same study have left."""
    file = _file(asked)
    found = json.loads(file.read_text())["points"] if file.exists() else []
    return [Point(**one) for one in found if one["seed"] not in asked.seeds]


def _seed(bed: OnBed, tasks: Sequence[Task], seed: int, kill: float) -> list[Point]:
    """All ways with one seed, each printed once it is known."""
    hand, held = by_hand(tasks, seed, HAND)
    added = held - statistics.fmean([one.seconds for one in tasks])
    print(f"seed {seed}: a job by hand holds its cores for {added:.2f} s more than its container sleeps", flush=True)
    found = [hand, *_model(bed, tasks, seed, added)]
    found += [through(bed, tasks, seed, way, split=way == SPLIT) for way in (THROUGH, SPLIT)]
    if kill:
        found.append(through(bed, tasks, seed, KILLED, split=False, while_they_run=_kills(bed, kill)))
    print(table(found), flush=True)
    return found


def _model(bed: OnBed, tasks: Sequence[Task], seed: int, added: float) -> Iterator[Point]:
    for way, split in ((MODEL, False), (MODEL_SPLIT, True)):
        queue = slurmtasks.Queue(bed.stack.site.documents(), "ada", ON_HPC, NODES_OF_THE_BED, str(TALLY))
        found = slurmtasks.played(tasks, queue, added, split=split)
        # In the cloud a small Job asks for less than the core that it has on HPC: all ways count that core.
        runs = [replace(run, cores=tasks[run.job].cores) for run in found.runs]
        yield point(way, seed, runs, CORES)


@contextlib.contextmanager
def _kills(bed: OnBed, seconds: float) -> Iterator[None]:
    """Within the block the agent and slurmctld are killed by turns, and started again after some seconds."""
    over = threading.Event()

    def kill() -> None:
        agent = True
        while not over.wait(seconds):
            if agent:
                bed.stack.agent.kill()
                time.sleep(_AWAY)
                bed.stack.agent.start()
            else:
                faults.kill("slurmctld")
                time.sleep(_AWAY)
                faults.start("slurmctld")
                faults.resume()
            agent = not agent

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        faults.repair()


if __name__ == "__main__":
    main()
