from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.kubelet import index
from router.kubelet.index import Mark, Times

STEPS = st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 5000)), max_size=1500)


def marks_of(steps: list[tuple[int, int]]) -> list[Mark]:
    """Marks whose times do not go back and whose offsets grow."""
    marks, time, offset = [], 0, 0
    for wait, grown in steps:
        time, offset = time + wait, offset + grown
        marks.append(Mark(time, offset))
    return marks


MARKS = STEPS.map(marks_of)


@pytest.mark.parametrize(
    ("last", "size", "modified", "now", "expected"),
    [
        (None, 0, 5, 9, None),
        (None, 7, 5, 9, Mark(5, 7)),
        (Mark(5, 7), 7, 8, 9, None),
        (Mark(5, 7), 3, 8, 9, None),  # cut, or the file server shows what was
        (Mark(5, 7), 8, 6, 9, Mark(6, 8)),
        (Mark(5, 7), 8, 99, 9, Mark(9, 8)),  # a file server's clock that is ahead
        (Mark(5, 7), 8, 2, 9, Mark(5, 8)),  # one that is behind
        (Mark(5, 7), 8, 6, 3, Mark(5, 8)),  # our own was set back
    ],
)
def test_a_log_that_has_grown_is_marked(
    last: Mark | None, size: int, modified: int, now: int, expected: Mark | None
) -> None:
    assert index.noted(last, size, modified, now) == expected


@given(MARKS)
def test_what_is_written_is_read(marks: list[Mark]) -> None:
    kept = index.merged([], marks)

    assert index.parse(index.text(kept)) == kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", ()),
        (b"5 7\n6 9\n", (Mark(5, 7), Mark(6, 9))),
        (b"5 7\n6 9", (Mark(5, 7),)),
        (b"x\n\n5\n5 7 9\n-5 7\n5 -7\n5 7\n", (Mark(5, 7),)),
        (b"6 7\n5 9\n7 7\n8 6\n9 10\n", (Mark(6, 7), Mark(9, 10))),
        (b"0 0\n5 " + b"9" * 40 + b"\n999999999999999999 8\n5 8\n", (Mark(5, 8),)),
        (b"5 9223372036854775808\n5 8\n", (Mark(5, 8),)),
        ("٥ 7\n5 8\n".encode(), (Mark(5, 8),)),
    ],
)
def test_what_the_users_programs_write_there_is_passed_over(text: bytes, expected: tuple[Mark, ...]) -> None:
    assert index.parse(text) == expected


@given(st.binary(max_size=300))
def test_nothing_in_the_file_is_an_error(text: bytes) -> None:
    marks = index.parse(text)

    assert list(marks) == sorted(marks, key=lambda mark: (mark.time, mark.offset))
    for mark in marks:
        assert index.stamp(mark.time)


@given(MARKS, MARKS)
def test_marks_stay_few_and_never_say_that_a_byte_came_too_early(marks: list[Mark], newer: list[Mark]) -> None:
    kept = index.merged(index.merged([], marks), newer)

    assert len(kept) <= index.MOST
    assert [mark.offset for mark in kept] == sorted({mark.offset for mark in kept})
    assert [mark.time for mark in kept] == sorted(mark.time for mark in kept)
    if marks:
        assert kept[-1].offset == max(marks[-1].offset, newer[-1].offset if newer else 0)
    for mark in marks:
        covering = next(one for one in kept if one.offset >= mark.offset)
        assert covering.time >= mark.time


def test_marks_of_long_ago_are_the_coarser_ones() -> None:
    kept: tuple[Mark, ...] = ()
    for number in range(1, 5001):
        kept = index.merged(kept, [Mark(number, number)])

    gaps = [later.offset - earlier.offset for earlier, later in itertools.pairwise(kept)]
    assert gaps[-1] == 1
    assert gaps[0] > 8


@pytest.mark.parametrize(
    ("time", "expected"), [(0, 0), (10, 0), (11, 100), (20, 100), (21, 250), (30, 250), (31, 300), (99, 300)]
)
def test_since_begins_behind_the_last_mark_that_is_older(time: int, expected: int) -> None:
    assert index.since([Mark(10, 100), Mark(20, 250), Mark(30, 300)], time) == expected


def test_since_of_a_log_without_marks_is_all_of_it() -> None:
    assert index.since([], 99) == 0


@given(MARKS.filter(bool), st.data())
def test_a_byte_has_the_time_of_the_first_mark_beyond_it(marks: list[Mark], data: st.DataObject) -> None:
    times = Times(marks)
    offsets = data.draw(st.lists(st.integers(0, marks[-1].offset - 1), max_size=20).map(sorted))

    for offset in offsets:
        covering = next(mark for mark in marks if mark.offset > offset)
        assert times.at(offset) == (index.stamp(covering.time), covering.offset)


def test_what_comes_later_has_the_time_at_which_it_is_seen() -> None:
    times = Times([Mark(1000, 10)])

    times.seen(30, 5000)
    times.seen(30, 6000)
    times.seen(40, 4000)  # our clock was set back

    assert times.at(0) == (b"1970-01-01T00:00:01.000000000Z ", 10)
    assert times.at(10) == (b"1970-01-01T00:00:05.000000000Z ", 30)
    assert times.at(35) == (b"1970-01-01T00:00:05.000000000Z ", 40)
    with pytest.raises(IndexError):
        times.at(40)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (0, b"1970-01-01T00:00:00.000000000Z "),
        (1_700_000_000_123, b"2023-11-14T22:13:20.123000000Z "),
        (253_402_300_799_999, b"9999-12-31T23:59:59.999000000Z "),
    ],
)
def test_a_timestamp_is_written_as_a_kubelet_writes_it(time: int, expected: bytes) -> None:
    assert index.stamp(time) == expected
