"""Figures that are worked out by hand, of one playing and over seeds."""

from __future__ import annotations

import math
from dataclasses import asdict

import pytest

from router.simulate.capacity import Pool
from router.simulate.figures import ALL, Figures, Spread, confidence, figures, over, peak, slowdown
from router.simulate.play import Played, Run
from router.simulate.series import SLICES, means, series

POOL = Pool(("demo/batch",), 2, 4, None, 0)
RUNS = (
    Run(0, "demo/batch", 0, 0, 3600, 4, cut=False),
    Run(1, "demo/batch", 0, 3600, 7200, 4, cut=True),
    Run(2, "cloud", 1800, 1800, 5400, 2, cut=False),
)
WENT = {"cloud": 1, "demo/batch": 2, "deny": 3}


def played(*runs: Run, went: dict[str, int]) -> Played:
    return Played(runs, went, {}, {}, {}, {})


def test_figures_by_destination() -> None:
    nan = math.nan
    found = figures(played(*RUNS, went=WENT), [POOL], 4000, 0.0)

    expected = {
        "demo/batch": Figures(2, 2, 8, 0.8, 1800, 3600, 1.5, 2, 0.5, 4, 7200, 1),
        "cloud": Figures(1, 1, 2, 0.2, 0, 0, 1, 1, 0.25, 2, 5400, 0),
        "deny": Figures(3, 0, 0, 0, nan, nan, nan, nan, nan, 0, nan, 0),
        ALL: Figures(6, 3, 10, 1, 0, 3600, 1, 2, nan, 6, 7200, 1),
    }
    assert list(found) == list(expected)
    for where, one in expected.items():
        assert asdict(found[where]) == pytest.approx(asdict(one), nan_ok=True)


@pytest.mark.parametrize(
    ("wait", "length", "expected"),
    [(0, 5, 1), (10, 10, 2), (5, 5, 1), (15, 5, 2), (90, 10, 10), (9, 0, 1), (100, 0, 10)],
)
def test_slowdown_is_bounded(wait: float, length: float, expected: float) -> None:
    assert slowdown(Run(0, "cloud", 0, wait, wait + length, 1, cut=False)) == expected


def test_the_peak_counts_what_ends_before_what_begins() -> None:
    assert peak([Run(0, "cloud", 0, 0, 5, 2, cut=False), Run(1, "cloud", 0, 5, 9, 2, cut=False)]) == 2


def test_spreads_over_seeds() -> None:
    seeds = [figures(played(*RUNS[:count], went={"demo/batch": count}), [POOL], None, 0.0) for count in (1, 2)]
    seeds.append(figures(played(RUNS[2], went={"cloud": 1}), [POOL], None, 0.0))
    found = over(seeds)

    assert list(found) == ["demo/batch", "cloud", ALL]
    assert (found["demo/batch"]["jobs"], found["demo/batch"]["wait_p95"]) == (Spread(1, 0, 2), Spread(1800, 0, 3600))
    assert (found["cloud"]["jobs"], found["cloud"]["wait_p95"]) == (Spread(0, 0, 1), Spread(0, 0, 0))


def test_confidence_is_that_of_the_median_between_the_ends() -> None:
    """Two seeds miss the median of all in half of the cases: both above, or both below."""
    assert [confidence(seeds) for seeds in (2, 3, 5)] == [0.5, 0.75, 0.9375]


def test_means_of_slices() -> None:
    """Of 120 slices of one second each."""
    found = means([(0, SLICES, 1), (2.5, 4.25, 2), (SLICES, SLICES, 5)], 0, SLICES)

    assert found == [1, 1, 2, 3, 1.5, *[1] * (SLICES - 5)]


def test_bands_over_time() -> None:
    found = series([played(*RUNS, went=WENT), played(*RUNS[:2], went=WENT)], 0.0)

    assert (found.begin, found.end) == (0, 7200)
    at = SLICES * 2700 // 7200
    assert (found.cores["HPC"][at], found.cores["cloud"][at]) == (Spread(4, 4, 4), Spread(1, 0, 2))
    assert asdict(found.share[at]) == pytest.approx(asdict(Spread(1 / 6, 0, 1 / 3)))
    assert found.waiting[0].median == 1
    # Of the Pods made at the start one waits for nothing and one for an hour; the next slices make none but the cloud's.
    assert found.wait[0] == Spread(1800, 1800, 1800)
    assert [number for number, one in enumerate(found.wait) if not math.isnan(one.median)] == [0, SLICES * 1800 // 7200]
