"""How often the batch system is asked, and which answers are not believed."""

from __future__ import annotations

import pytest

from router.reconcile.model import Terms
from router.reconcile.pace import Doubt, doubted, interval, vanished
from router.reconcile.waiting import due, stretched


@pytest.mark.parametrize(("changed", "expected"), [(None, 30), (1000.0, 5), (941.0, 5), (940.0, 30), (0.0, 30)])
def test_the_batch_system_is_asked_more_often_for_a_minute_after_a_change(
    changed: float | None, expected: float
) -> None:
    assert interval(changed, 1000.0, quick=5, slow=30) == expected


def test_quick_is_never_slower_than_slow() -> None:
    assert interval(1000.0, 1000.0, quick=60, slow=30) == 30


@pytest.mark.parametrize(
    ("known", "gone", "believed"),
    [
        (0, 0, True),
        (1, 1, True),
        (2, 2, True),
        (3, 3, False),
        (30, 3, True),
        (30, 4, False),
        (1000, 100, True),
        (1000, 101, False),
    ],
)
def test_an_answer_that_has_lost_too_much_is_not_believed(known: int, gone: int, believed: bool) -> None:
    jobs = [str(number) for number in range(known)]

    assert (vanished(set(jobs), set(jobs[:gone])) == "") == believed


def test_jobs_that_were_not_known_do_not_count() -> None:
    assert vanished({"1"}, {"2", "3", "4", "5"}) == ""


@pytest.mark.parametrize(("tries", "expected"), [(1, 102), (2, 104), (3, 108), (6, 160), (400, 160)])
def test_what_fails_is_tried_at_doubled_intervals(tries: int, expected: float) -> None:
    assert due(tries, 100.0, Terms()) == expected


def test_what_was_never_tried_is_due() -> None:
    assert due(0, None, Terms()) == 0


@pytest.mark.parametrize(
    ("last", "expected"), [(None, 100), (50.0, 100), (100.0, 101), (104.0, 106), (200.0, 250), (400.0, 460)]
)
def test_what_is_waited_for_long_is_looked_for_less_often(last: float | None, expected: float) -> None:
    assert stretched(100.0, last, Terms()) == expected


@pytest.mark.parametrize(
    ("before", "now", "expected", "over"),
    [
        (None, 1000.0, Doubt(1000.0, 1000.0), False),
        (Doubt(1000.0, 1030.0), 1930.0, Doubt(1000.0, 1930.0), False),
        (Doubt(1000.0, 1030.0), 1931.0, Doubt(1931.0, 1931.0), False),
        (Doubt(1000.0, 2770.0), 2799.0, Doubt(1000.0, 2799.0), False),
        (Doubt(1000.0, 2770.0), 2800.0, Doubt(1000.0, 2800.0), True),
    ],
)
def test_a_doubt_ends_where_the_server_says_the_same_for_long(
    before: Doubt | None, now: float, expected: Doubt, over: bool
) -> None:
    assert doubted(before, now) == expected
    assert expected.over(600.0) is over
