"""Figures over time: cores in use by destination, the cloud's share, Pods that wait and how long they do.

Pure. The time from the first arrival to the last end is cut into equal slices; a value is the mean over a slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from router.simulate.figures import Spread, spread
from router.simulate.play import CLOUD, Played, Run
from router.values import unchanging

SLICES: Final = 120
HPC: Final = "HPC"

Band = tuple[Spread, ...]
"""The spread over seeds in each slice."""


@unchanging
class Series:
    """The bands over seeds from ``begin`` to ``end`` (seconds).

    :param cores: in use on HPC and in the cloud
    :param share: the cloud's share of cores in use, 0 to 1
    :param waiting: Pods that wait
    :param wait: the mean wait in seconds of the Pods that are made in a slice; NaN without any
    """

    begin: float
    end: float
    cores: dict[str, Band]
    share: Band
    waiting: Band
    wait: Band


def series(seeds: Sequence[Played], begin: float) -> Series:
    """The bands of all seeds, on the time of the longest."""
    end = max([run.ended for played in seeds for run in played.runs], default=begin)
    end = max(end, begin + 1.0)
    cores: dict[str, list[list[float]]] = {HPC: [], CLOUD: []}
    waiting: list[list[float]] = []
    waits: list[list[float]] = []
    shares: list[list[float]] = []
    for played in seeds:
        here, there = ([run for run in played.runs if (run.to == CLOUD) is cloud] for cloud in (False, True))
        hpc, cloud = (means([(one.began, one.ended, one.cores) for one in runs], begin, end) for runs in (here, there))
        cores[HPC].append(hpc)
        cores[CLOUD].append(cloud)
        shares.append([b / (a + b) if a + b > 0 else math.nan for a, b in zip(hpc, cloud, strict=True)])
        waiting.append(means(_waiting(played.runs), begin, end))
        waits.append(_waits(played.runs, begin, end))
    found = {name: _band(values) for name, values in cores.items()}
    return Series(begin, end, found, _band(shares), _band(waiting), _band(waits))


def _waits(runs: Iterable[Run], begin: float, end: float) -> list[float]:
    """The mean wait of the Pods that are made in each slice."""
    made: list[list[float]] = [[] for _ in range(SLICES)]
    for run in runs:
        made[min(int((run.made - begin) * SLICES / (end - begin)), SLICES - 1)].append(run.wait)
    return [sum(waits) / len(waits) if waits else math.nan for waits in made]


def _waiting(runs: Iterable[Run]) -> list[tuple[float, float, float]]:
    return [(run.made, run.began, 1.0) for run in runs if run.began > run.made]


def means(spans: Iterable[tuple[float, float, float]], begin: float, end: float) -> list[float]:
    """The mean height in each slice of spans that begin, end and have a height."""
    width = (end - begin) / SLICES
    found, whole = [0.0] * SLICES, [0.0] * (SLICES + 1)
    for first, last, height in spans:
        left, right = (first - begin) / width, (last - begin) / width
        a, b = min(int(left), SLICES - 1), min(int(right), SLICES - 1)
        if a == b:
            found[a] += (right - left) * height
            continue
        found[a] += (a + 1 - left) * height
        found[b] += (right - b) * height
        whole[a + 1] += height  # of all slices between them, by their difference
        whole[b] -= height
    level = 0.0
    for number in range(SLICES):
        level += whole[number]
        found[number] += level
    return found


def _band(seeds: Sequence[Sequence[float]]) -> Band:
    return tuple(map(spread, zip(*seeds, strict=True)))
