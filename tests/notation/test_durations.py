"""Durations as people write them, always whole seconds from 1 to ten years."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.notation.durations import LONGEST, doubt, hms, seconds, show


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("90", 90),
        ("5:00", 300),
        ("2:00:00", 7200),
        ("99:00", 5940),
        ("3600", 3600),
        ("100:00:00", 360000),
        ("1h30m", 5400),
        ("90m", 5400),
        ("45s", 45),
        ("2d", 172800),
        ("1d2h3m4s", 93784),
        (" 1h ", 3600),
        (str(LONGEST), LONGEST),
    ],
)
def test_forms(text: str, expected: int):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "0", "0s", "0:00", "00:00:00", "-1", "+1", "1.5", "1.5h", "1h 30m", "30m1h", "h", "1w", "1:2:3:4"),
        *(
            "1-00:00:00",
            "soon",
            "٣",
            "1e3",
            "inf",
            ":",
            "1:",
            ":1",
            "00:99:00",
            "1:60",
            "1:00:60",
            "1:60:00",
            str(LONGEST + 1),
            "3661d",
            "9" * 400,
        ),
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str):
    with pytest.raises(ValueError, match="write 5400, 1:30:00 or 1h30m"):
        seconds(text)


@given(st.integers(1, LONGEST))
def test_what_is_shown_is_read_back(value: int):
    assert seconds(show(value)) == value
    assert seconds(hms(value)) == value


@pytest.mark.parametrize(("value", "shown"), [(0, "0s"), (45, "45s"), (300, "5m"), (5400, "1h30m"), (172800, "2d")])
def test_people_see_units(value: int, shown: str):
    assert show(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(1, "00:00:01"), (90000, "25:00:00"), (3661, "01:01:01")])
def test_batch_systems_see_hours(value: int, shown: str):
    assert hms(value) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2:00", "2:00 is 2m, minutes before the colon as in PBS; write 2m, or 2h if hours are meant"),
        (" 1:30 ", "1:30 is 1m30s, minutes before the colon as in PBS; write 1m30s, or 1h30m if hours are meant"),
        ("2:00:00", None),
        ("120", None),
        ("2h", None),
    ],
)
def test_two_fields_are_doubtful(text: str, said: str | None):
    assert doubt(text) == said
