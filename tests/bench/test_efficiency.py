"""The policies of the model's comparison, and the oracle among them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bench import efficiency
from bench.oracle import Choice, Limits, at_random, searched, worths
from router.simulate.play import CLOUD, Played, Run

HPC = "hpc/batch"


def run(job: int, made: float, began: float, ended: float, cores: float) -> Run:
    return Run(job, HPC, made, began, ended, cores, cut=False)


def test_what_a_job_would_save_if_it_went_elsewhere() -> None:
    """Of a machine of two cores: the first Job holds both, and the two others wait for it 10 and 5 seconds."""
    runs = [run(0, 0, 0, 10, 2), run(1, 0, 10, 15, 1), run(2, 5, 10, 20, 1)]

    assert worths(runs, 2) == {0: 15 / 20, 1: 10 / 5, 2: 5 / 10}


def test_what_an_early_and_a_late_job_save_others_is_nothing() -> None:
    """The one ends before any Job waits, the other begins after all have waited."""
    runs = [run(0, 0, 0, 5, 1), run(1, 6, 6, 10, 2), run(2, 7, 10, 11, 2), run(3, 12, 12, 13, 1)]

    assert worths(runs, 2) == {0: 0.0, 1: 3 / 8, 2: 3 / 2, 3: 0.0}


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 4)), min_size=1, max_size=12),
    st.integers(0, 9),
)
def test_the_search_keeps_its_limits_and_ends_no_worse_than_it_began(
    drawn: list[tuple[int, int, int]], seed: int
) -> None:
    """One job after another, each on the whole machine; what goes to the cloud begins at once."""

    def replay(jobs: frozenset[int]) -> Played:
        tried.append(jobs)
        runs, free = [], 0.0
        for number, (made, length, cores) in enumerate(drawn):
            if number in jobs:
                runs.append(replace(run(number, made, made, made + length, cores), to=CLOUD))
                continue
            began = max(free, made)
            free = began + length
            runs.append(run(number, made, began, free, cores))
        return Played(tuple(runs), {}, {}, {}, {}, {})

    tried: list[frozenset[int]] = []
    limits = Limits(2, 0.3 * sum(length * cores for _, length, cores in drawn))
    first = Choice(frozenset(), replay(frozenset()))

    found = searched(first, replay, limits, 4, tries=8, seed=seed)

    assert len(tried) == 9
    for jobs in tried:
        assert all(drawn[job][2] <= limits.cores for job in jobs)
        assert sum(drawn[job][1] * drawn[job][2] for job in jobs) <= limits.core_seconds
    assert found.wait == min(Choice(jobs, replay(jobs)).wait for jobs in tried[:9])


def test_each_policy_of_the_comparison_sends_what_its_name_says() -> None:
    points = {one.way: one for one in efficiency.played((1.1, 1, 120, 5))}
    waits, oracle = points["by size and wait"], points[efficiency.ORACLE]

    assert points.keys() == efficiency.RULES.keys()
    assert (points["all to HPC"].share, points["all to the cloud"].share) == (0, 1)
    assert (points["all to the cloud"].wait, points["all to the cloud"].utilisation) == (0, 0)
    assert 0 < points["by size and walltime"].share < points["by size"].share < 1
    assert 0 < waits.share < points["by size"].share
    chance = points[efficiency.CHANCE]
    # Chance and the oracle pay no more than the rule that looks at the queue; the oracle's wait is shorter.
    assert 0.9 * waits.share < chance.share <= waits.share * (1 + 1e-9)
    assert 0.9 * waits.share < oracle.share <= waits.share * (1 + 1e-9)
    assert 0 < oracle.wait <= waits.wait < points["all to HPC"].wait


def test_chance_chooses_small_jobs_within_the_budget() -> None:
    runs = [run(number, 0, 0, 10, 4 if number % 2 else 1) for number in range(40)]

    chosen = [at_random(runs, Limits(2, 75), seed) for seed in (1, 1, 2)]

    assert [(len(one), all(job % 2 == 0 for job in one)) for one in chosen] == [(7, True)] * 3
    assert chosen[0] == chosen[1] != chosen[2]


def test_the_same_seed_gives_the_same_figures() -> None:
    assert efficiency.played((0.9, 2, 60, 3)) == efficiency.played((0.9, 2, 60, 3))
