"""Draws batch jobs by a published model: sizes, running times and arrivals by Lublin and Feitelson, walltimes by others.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs", JPDC
63(11), 2003, with the figures of their program for batch jobs on 128 processors. It leaves out what users ask for: a
running time is an even part of the walltime (A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001), and that is one of
the few that people write (D. Tsafrir, Y. Etsion and D. G. Feitelson, "Modeling user runtime estimates", JSSPP 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

PROCESSORS = 128
_SERIAL, _POWER = 0.2927, 0.6686
_LOW, _MIDDLE, _HIGH, _LOWER = 1.2, 5.0, 7.0, 0.875
"""Logarithms to the base of 2 of parallel jobs' sizes, even between the first two with the chance of the last."""
_SHORT, _LONG, _SLOPE, _ONE = (6.57, 0.823), (639.1, 0.0156), -0.003, 0.6986
"""Logarithms of running times: two gamma distributions, and how the chance of the first depends on the size."""
_LONGEST = 12.0
_ARRIVAL, _OF_A_DAY, _RUSH = (6.0415, 0.8531), (6.1271, 5.2740), 1.0519
_LATEST = 13.0
"""Logarithms of the time between arrivals in rush hours, and how arrivals spread over a day, by half hours."""
_BUCKETS, _BUCKET, _DAY_STARTS = 48, 1800.0, 11
_WRITTEN = (300, 900, 1800, 3600, 7200, 10800, 14400, 21600, 28800, 43200, 64800, 86400, 129600, 172800, 259200)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A batch job: arrival and running time in seconds, processors, the walltime that it asks for."""

    arrival: float
    processors: int
    runtime: float
    walltime: int


def workload(jobs: int, load: float, seed: int) -> list[Drawn]:
    """Jobs whose times of arrival are stretched until they ask for this part of the processors' time.

    The same seed gives the same jobs for every load.
    """
    random = Random(f"lublin {seed}")
    arrivals = _arrivals(random)
    drawn = [_job(random, next(arrivals)) for _ in range(jobs)]
    first, last = drawn[0].arrival, drawn[-1].arrival
    asked = sum(job.processors * job.runtime for job in drawn)
    stretch = asked / (PROCESSORS * load) / (last - first)
    return [Drawn((job.arrival - first) * stretch, job.processors, job.runtime, job.walltime) for job in drawn]


def _job(random: Random, arrival: float) -> Drawn:
    processors = _size(random)
    chance = min(1.0, max(0.0, _SLOPE * processors + _ONE))
    while True:
        logarithm = random.gammavariate(*(_SHORT if random.random() <= chance else _LONG))
        if logarithm <= _LONGEST:
            break
    runtime = math.floor(math.exp(logarithm))
    wanted = runtime / (1 - random.random())
    walltime = next((one for one in _WRITTEN if one >= wanted), _WRITTEN[-1])
    return Drawn(arrival, processors, runtime, walltime)


def _size(random: Random) -> int:
    kind = random.random()
    if kind <= _SERIAL:
        return 1
    logarithm = random.uniform(_LOW, _MIDDLE) if random.random() <= _LOWER else random.uniform(_MIDDLE, _HIGH)
    return round(2.0 ** (round(logarithm) if kind <= _SERIAL + _POWER else logarithm))


def _arrivals(random: Random) -> Iterator[float]:
    """Times in seconds since midnight. A half hour with many arrivals takes more of what is drawn to pass."""
    weights = _weights()
    shape, scale = _ARRIVAL
    points, now, rest = 0.0, 0.0, 0.0
    bucket = 0
    while True:
        while (gap := random.gammavariate(shape * _RUSH, scale)) > _LATEST:
            pass
        points += math.exp(gap) / _BUCKET
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % _BUCKETS
            now += _BUCKET
        now += _BUCKET * (points / weights[bucket] - rest)
        rest = points / weights[bucket]
        yield now


def _weights() -> list[float]:
    found = [0.0] * _BUCKETS
    for number in range(_DAY_STARTS, _BUCKETS + _DAY_STARTS):
        found[(number - 1) % _BUCKETS] = _density(number)
    mean = sum(found) / _BUCKETS
    return [weight / mean for weight in found]


def _density(at: float) -> float:
    """Of the gamma distribution of a day's arrivals around a half hour, by Simpson's rule."""
    shape, scale = _OF_A_DAY

    def value(x: float) -> float:
        return math.exp((shape - 1) * math.log(x / scale) - x / scale - math.lgamma(shape)) / scale

    return (value(at - 0.5) + 4 * value(at) + value(at + 0.5)) / 6
