"""Measures what each job costs besides its own time, on the bed's Slurm: by ``sbatch``, as an array, and through Batchgate.

All cores get the same number n of jobs of one core, all at once, and the same work: each job sleeps for an nth of it. What
the whole takes longer than the work grows as t_s * n**alpha_s, the model of A. Reuther et al., "Scalable system scheduling
for HPC and big data", JPDC 111, 2018; t_s is what the first job costs, and alpha_s how the cost grows. Utilisation is
work by the whole.

The bed has to be up (``make bed``, docs/bed.md); without it this is skipped.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.drawn import Task
from bench.onbed import demand_standing, on_bed
from bench.report import Row, write
from bench.slurmways import Site, as_array, place
from bench.ways import Place, by_hand, through
from bench.whole import machine
from tests.agent.bed.site import OWN_KEYS

WORK = 60.0
"""Seconds that each core works."""
SIZES = (1, 2, 4, 8, 16)
"""Jobs of each core."""
HAND, ARRAY, THROUGH = "by sbatch", "as an array", "through Batchgate"


@dataclass(frozen=True, slots=True)
class Model:
    """What n jobs of a core cost: ``first * n**growth`` seconds."""

    first: float
    growth: float


def main() -> None:
    """Print all figures and the models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=float, default=WORK, help="seconds that each core works")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="jobs of each core; the model needs two numbers"
    )
    parser.add_argument(
        "--raised-limits",
        action="store_true",
        help="controllers send 500 requests a second, not 20 as in a default cluster",
    )
    asked = parser.parse_args()
    demand_standing()
    rows = machine("before")
    with on_bed(OWN_KEYS, raised_limits=asked.raised_limits, kind=Site) as bed:
        spans: dict[str, dict[int, float]] = {HAND: {}, ARRAY: {}, THROUGH: {}}
        for size in asked.sizes:
            for way, span in _spans(place(bed), size, asked.work).items():
                spans[way][size] = span
                found = [
                    Row(f"{size} of a core, {asked.work / size:g} s each, {way}: whole", span, "s"),
                    Row(f"{size} of a core, {asked.work / size:g} s each, {way}: utilisation", asked.work / span, ""),
                ]
                rows += found
                write("slurmlatency", rows, printed=len(rows) - len(found))
    shown = len(rows)
    # A line through one point would have any slope.
    for way, own in spans.items() if len(set(asked.sizes)) > 1 else ():
        model = fitted({size: span - asked.work for size, span in own.items()})
        rows += [Row(f"{way}: t_s", model.first, "s"), Row(f"{way}: alpha_s", model.growth, "")]
    write("slurmlatency", [*rows, *machine("after")], printed=shown)


def _spans(where: Place, size: int, work: float) -> Mapping[str, float]:
    seconds, minutes = round(work / size, 3), math.ceil(work / size / 60) + 1
    tasks = [Task(number, 0.0, seconds, 1, minutes) for number in range(where.all_cores * size)]
    return {
        HAND: by_hand(where, tasks, size, HAND)[0].makespan,
        ARRAY: as_array(tasks, size, ARRAY, where.all_cores).makespan,
        THROUGH: through(where, tasks, size, THROUGH, split=False).makespan,
    }


def fitted(costs: Mapping[int, float]) -> Model:
    """The model that fits costs best by least squares of logarithms, by the number of jobs.

    :param costs: seconds above 0, of at least two numbers
    """
    points: Sequence[tuple[float, float]] = [(math.log(size), math.log(cost)) for size, cost in costs.items()]
    x, y = (sum(one) / len(points) for one in zip(*points, strict=True))
    growth = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return Model(math.exp(y - growth * x), growth)


if __name__ == "__main__":
    main()
