"""Ranges of time in which a job may start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.reconcile.starts import FEWEST_WAITS, PLANS, Start, by_plans, by_waits, heard, moved, people, read, words

NOW = int(datetime(2026, 11, 26, 13, 0, tzinfo=UTC).timestamp())
HOUR = 3600


@given(st.lists(st.integers(0, 1_000_000)), st.integers(0, 1_000_000))
def test_a_range_by_waits_is_in_order_and_never_past(waits: list[int], waited: int) -> None:
    ordered = sorted(map(float, waits))

    found = by_waits(ordered, NOW - waited, NOW)

    longer = [one for one in ordered if one > waited]
    assert (found is None) == (len(longer) < FEWEST_WAITS)
    if found is not None:
        assert found.latest > NOW
        assert found.earliest is None or NOW < found.earliest <= found.latest
        assert found.latest - NOW <= longer[-1] - waited
        assert read(words(found)) == ("", found)


class _NeverWalked(tuple[float, ...]):
    """Waits that cannot be walked from the first to the last."""

    __slots__ = ()

    def __iter__(self) -> Iterator[float]:
        raise AssertionError("all waits were looked at")


def test_a_range_by_many_waits_looks_at_few_of_them() -> None:
    """It is worked out for each Pod at each of its plans."""
    waits = _NeverWalked(map(float, range(100_000)))

    found = by_waits(waits, NOW - 50_000, NOW)

    assert found == Start(NOW + 5000, NOW + 45_000, "the waits of 49999 Pods in this queue within a day")


def test_a_plan_a_minute_for_an_hour() -> None:
    """Each is later by more than five minutes, so that it is another plan; those of the last hour count."""
    plans = None
    for minute in range(90):
        at = NOW + 60 * minute
        plans = heard(plans, datetime.fromtimestamp(NOW + 8 * HOUR + 400 * minute, UTC), at)

        found = by_plans(plans, at)

        first = max(0, minute - 59)
        assert found == Start(NOW + 8 * HOUR + 400 * first, NOW + 8 * HOUR + 400 * minute, PLANS)


@given(st.text(), st.integers(0, 4_000_000_000), st.integers(0, 10_000_000), st.booleans())
def test_words_are_read_again(before: str, low: int, wide: int, any_time: bool) -> None:
    start = Start(None if any_time else low, low + wide, PLANS)

    assert read(f"{before}; {words(start)}") == (before, start)


@given(st.text())
def test_any_message_is_read(message: str) -> None:
    rest, start = read(message)

    assert message.startswith(rest)
    assert (start is None) == (rest == message)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (HOUR, HOUR, "about 14:00 UTC"),
        (HOUR, 2 * HOUR, "between 14:00 and 15:00 UTC"),
        (None, HOUR, "before 14:00 UTC"),
        (-60, HOUR, "before 14:00 UTC"),
        (HOUR, 20 * HOUR, "between 14:00 and 2026-11-27 09:00 UTC"),
    ],
)
def test_what_people_read(low: int | None, high: int, shown: str) -> None:
    assert people(Start(None if low is None else NOW + low, NOW + high), NOW) == shown


@pytest.mark.parametrize(
    ("told", "found", "expected"),
    [
        ((HOUR, HOUR), (HOUR + 900, HOUR + 900), False),
        ((HOUR, HOUR), (HOUR + 901, 2 * HOUR), True),
        ((HOUR, 2 * HOUR), (2 * HOUR, 9 * HOUR), False),
        ((2 * HOUR, 4 * HOUR), (None, 900), True),
        ((2 * HOUR, 4 * HOUR), (None, HOUR + 1), False),
        ((None, 20 * HOUR), (24 * HOUR, 25 * HOUR), False),
        ((None, 20 * HOUR), (26 * HOUR, 26 * HOUR), True),
    ],
)
def test_when_a_start_has_moved_for_good(
    told: tuple[int | None, int], found: tuple[int | None, int], expected: bool
) -> None:
    ranges = [Start(None if low is None else NOW + low, NOW + high) for low, high in (told, found)]

    assert moved(ranges[0], ranges[1], NOW) is expected
