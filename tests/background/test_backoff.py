"""Pauses that grow with failures."""

from __future__ import annotations

import pytest

from router.background.backoff import BackOff


def test_pauses_double_up_to_the_longest() -> None:
    back_off = BackOff(first=0.5, longest=3.0)

    assert [back_off.after(failures) for failures in range(6)] == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_longest_pause_holds_for_the_first_failure_too() -> None:
    assert [BackOff(first=5.0, longest=1.0).after(failures) for failures in (1, 2)] == [1.0, 1.0]


@pytest.mark.parametrize("failures", [1_100, 10**9])
def test_an_outage_may_last_for_months(failures: int) -> None:
    assert BackOff(first=1.0, longest=60.0).after(failures) == 60.0
