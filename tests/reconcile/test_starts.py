"""Ranges of time in which a job may start."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.reconcile.starts import FEWEST_WAITS, PLANS, Start, by_waits, moved, people, read, words

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
