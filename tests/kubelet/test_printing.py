from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from router.kubelet.index import Mark, Times, stamp
from router.kubelet.printing import Printer

TEXTS = st.lists(st.sampled_from([b"", b"\n", b"a", b"bc\n", b"\n\n", b"\xff\x00 "]), max_size=30).map(b"".join)
CUTS = st.lists(st.integers(0, 60), max_size=8).map(sorted)


def printed(printer: Printer, data: bytes, cuts: list[int]) -> bytes:
    """Fed in the pieces between these cuts."""
    edges = [0, *(min(cut, len(data)) for cut in cuts), len(data)]
    return b"".join(printer.feed(data[start:end]) for start, end in itertools.pairwise(edges))


@given(TEXTS, CUTS)
def test_bytes_are_passed_as_they_are(data: bytes, cuts: list[int]) -> None:
    printer = Printer(5)

    assert printed(printer, data, cuts) == data
    assert printer.offset == 5 + len(data)
    assert not printer.done


@given(TEXTS, CUTS, st.lists(st.integers(1, 20), max_size=6))
def test_each_line_has_the_time_of_its_first_byte(data: bytes, cuts: list[int], steps: list[int]) -> None:
    marks = [Mark(1000 * number, sum(steps[:number])) for number in range(1, len(steps) + 1)]
    marks.append(Mark(99_000, sum(steps) + len(data) + 1))

    expected = b""
    offset = 0
    for line in data.splitlines(keepends=True):
        time = next(mark.time for mark in marks if mark.offset > offset)
        expected += stamp(time) + line
        offset += len(line)

    assert printed(Printer(0, times=Times(marks)), data, cuts) == expected


@given(TEXTS, CUTS, st.integers(1, 80))
def test_no_more_is_sent_than_the_limit_times_included(data: bytes, cuts: list[int], limit: int) -> None:
    marks = [Mark(1000, 1000)]
    whole = printed(Printer(0, times=Times(marks)), data, [])
    printer = Printer(0, times=Times(marks), limit=limit)

    assert printed(printer, data, cuts) == whole[:limit]
    assert printer.done is (len(whole) >= limit)


@given(TEXTS, CUTS)
def test_a_line_that_began_before_is_left_out(data: bytes, cuts: list[int]) -> None:
    printer = Printer(7, skip=True)

    assert printed(printer, data, cuts) == data.partition(b"\n")[2]
    assert printer.offset == 7 + len(data)


def test_a_line_left_out_gets_no_time() -> None:
    printer = Printer(7, times=Times([Mark(1000, 12), Mark(2000, 99)]), skip=True)

    out = printer.feed(b"old") + printer.feed(b"er\n") + printer.feed(b"new\n")

    assert out == b"1970-01-01T00:00:02.000000000Z new\n"


def test_a_line_that_comes_in_parts_has_one_time() -> None:
    times = Times([])
    printer = Printer(0, times=times)
    out = b""
    for second, part in enumerate([b"not yet", b" whole\nnext", b"\n"], start=1):
        times.seen(printer.offset + len(part), second * 1000)
        out += printer.feed(part)

    assert out == b"1970-01-01T00:00:01.000000000Z not yet whole\n1970-01-01T00:00:02.000000000Z next\n"
