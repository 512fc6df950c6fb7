"""Compares ways to route Jobs, in the model of ``batchgate policy simulate``, at loads from 0.5 to 1.1 of the machine.

``python -m bench.efficiency`` draws jobs by a published model (``bench.lublin``), plays them by seven policies with five
seeds each, and writes build/bench/efficiency.json, the plots of docs/efficiency.md and its tables.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import lublin
from bench.efficiencypage import COLUMNS, PLOTS, table
from bench.oracle import Choice, Limits, at_random, searched
from bench.plots import curves
from bench.report import DIRECTORY
from bench.served import Served, served
from router import policy
from router.policy.model import Policy
from router.simulate import jobs, swf
from router.simulate.capacity import pools
from router.simulate.figures import Spread, spread
from router.simulate.judging import Judge
from router.simulate.play import CLOUD, Played, World, play

LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
NODES, CORES = 32, 4
SMALL = 8
"""Cores of a Job that the cloud may have, as a part of a sixteenth of the machine."""
SITE = f"""
sites:
  - name: hpc
    system: slurm
    workDir: /scratch/{{user}}
    mpi: [{{name: mpi, launcher: openmpi}}]
    queues: [{{name: batch, nodes: {NODES}, cpusPerNode: {CORES}, walltimeMax: 30d}}]
accounts:
  - {{users: ["*"], as: user, shared: true}}
rules:
"""
TO_HPC = '  - {name: rest, when: "true", hpc: [{queue: batch}]}\n'
TO_CLOUD = '  - {{name: cloud, when: "{}", cloud: true}}\n'
WAITS = f"job.cpus <= {SMALL} && queues['batch'].waitSeconds > 1800"
ORACLE = "an oracle"
CHANCE = "by size and chance"
CHOSEN = TO_CLOUD.format("'chosen' in job.labels") + TO_HPC
RULES: Mapping[str, str] = {
    "all to HPC": TO_HPC,
    "all to the cloud": "  - {name: all, cloud: true}\n",
    "by size": TO_CLOUD.format(f"job.cpus <= {SMALL}") + TO_HPC,
    "by size and walltime": TO_CLOUD.format(f"job.cpus <= {SMALL} && job.walltime <= 7200") + TO_HPC,
    CHANCE: CHOSEN,
    "by size and wait": TO_CLOUD.format(WAITS) + TO_HPC,
    ORACLE: CHOSEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Served):
    """One way to route at one load with one seed; ``cloud_jobs``: the part of the Jobs that went to the cloud."""

    load: float
    cloud_jobs: float


def main() -> None:
    """Play all, and write figures, tables and plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tries", type=int, default=100, help="steps of the oracle's search")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plots", type=Path, default=DIRECTORY, help="where the plots go; docs for those of the page")
    options = parser.parse_args()
    options.plots.mkdir(parents=True, exist_ok=True)
    cases = [(load, seed, options.jobs, options.tries) for load in LOADS for seed in range(1, options.seeds + 1)]
    with ProcessPoolExecutor(options.processes) as pool:
        points = [point for found in pool.map(played, cases) for point in found]
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    (DIRECTORY / "efficiency.json").write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    for name, (figure, title, scale) in PLOTS.items():
        lines = {way: [_over_seeds(points, way, load, figure) for load in LOADS] for way in RULES}
        (options.plots / f"efficiency-{name}.svg").write_text(curves(title, LOADS, lines, scale))
    for load in (0.7, 0.9, 1.1):
        rows = {way: [_over_seeds(points, way, load, figure) for figure in COLUMNS] for way in RULES}
        print(f"\nLoad {load}:\n\n{table('policy', COLUMNS, rows)}")


def _over_seeds(points: Sequence[Point], way: str, load: float, figure: str) -> Spread:
    return spread([getattr(one, figure) for one in points if (one.way, one.load) == (way, load)])


def played(case: tuple[float, int, int, int]) -> list[Point]:
    """Each way at one load with one seed. Oracle and chance may spend as many core-hours as the way by waits has spent."""
    load, seed, count, tries = case
    checked = {way: policy.load({"all.yaml": SITE + rules}) for way, rules in RULES.items()}
    drawn = _jobs(checked["all to HPC"], lublin.workload(count, load, seed))

    def by(way: str, given: Sequence[jobs.Job]) -> Played:
        one = checked[way]
        world = World(pools([f"hpc/batch={NODES}"] if way != "all to the cloud" else [], [one]), None, jobs.Assumed())
        return play(Judge(one), given, world, seed)

    def with_these(chosen: frozenset[int]) -> Played:
        return by(ORACLE, [_with_label(job) if number in chosen else job for number, job in enumerate(drawn)])

    found = {way: by(way, drawn) for way in RULES if way not in {ORACLE, CHANCE}}
    taken = [run for run in found["by size and wait"].runs if run.to == CLOUD]
    first = Choice(frozenset(run.job for run in taken), found["by size and wait"])
    limits = Limits(SMALL, sum(run.core_seconds for run in taken))
    found[CHANCE] = with_these(at_random(found["all to HPC"].runs, limits, seed))
    found[ORACLE] = searched(first, with_these, limits, NODES * CORES, tries, seed).played
    return [_point(way, load, seed, found[way]) for way in RULES]


def _jobs(one: Policy, drawn: Sequence[lublin.Drawn]) -> tuple[jobs.Job, ...]:
    records = [
        swf.Record(number, job.arrival, job.runtime, job.processors, job.walltime, None, 1, 1, 1, f"job:{number}")
        for number, job in enumerate(drawn, start=1)
    ]
    found = jobs.of_trace(records, one, jobs.Owner(), jobs.Assumed())
    return jobs.in_order([job for job in found if isinstance(job, jobs.Job)])


def _with_label(job: jobs.Job) -> jobs.Job:
    workload = replace(job.case.workload, labels={"chosen": "cloud"})
    return replace(job, case=replace(job.case, workload=workload))


def _point(way: str, load: float, seed: int, result: Played) -> Point:
    runs = result.runs
    cloud = sum(run.to == CLOUD for run in runs) / len(runs)
    return Point(way=way, seed=seed, load=load, **served(runs, NODES * CORES), cloud_jobs=cloud)


if __name__ == "__main__":
    main()
