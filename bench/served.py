"""What became of the jobs of a study, in the model or on a real batch system.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from router.notation.quantiles import quantile
from router.simulate.figures import slowdown
from router.simulate.play import CLOUD, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Jobs that were given in one way with one seed. Times in seconds, from the first job's arrival to the last end.

    :param utilisation: part of the HPC nodes' time
    :param share: the cloud's part of what all jobs used
    """

    way: str
    seed: int
    wait: float
    wait_p95: float
    slowdown: float
    slowdown_p95: float
    utilisation: float
    share: float
    makespan: float


def served(runs: Sequence[Run], cores: int) -> dict[str, float]:
    """The figures of ``Served``, by name.

    :param cores: of the HPC nodes
    """
    waits, slowdowns = [run.wait for run in runs], [slowdown(run) for run in runs]
    makespan = max(run.ended for run in runs) - min(run.made for run in runs)
    used = sum(run.core_seconds for run in runs)
    cloud = sum(run.core_seconds for run in runs if run.to == CLOUD)
    return {
        "wait": statistics.fmean(waits),
        "wait_p95": of_all(waits, 0.95),
        "slowdown": statistics.fmean(slowdowns),
        "slowdown_p95": of_all(slowdowns, 0.95),
        "utilisation": (used - cloud) / (cores * makespan),
        "share": cloud / used,
        "makespan": makespan,
    }


def of_all(values: Sequence[float], share: float) -> float:
    """A quantile; NaN of no values."""
    found = quantile(sorted(values), share)
    return float("nan") if found is None else found
