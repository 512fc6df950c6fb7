from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from router.kubelet.tail import tail_start

TEXTS = st.lists(st.sampled_from([b"", b"\n", b"a", b"bc\n", b"\n\n", b"a long line"]), max_size=30).map(b"".join)


def start_of(data: bytes, lines: int, block: int) -> tuple[int, list[tuple[int, int]]]:
    """The offset, and the blocks that were asked for."""
    asked = []
    conversation = tail_start(len(data), lines, block)
    try:
        wanted = next(conversation)
        while True:
            asked.append(wanted)
            wanted = conversation.send(data[wanted[0] : wanted[0] + wanted[1]])
    except StopIteration as end:
        return end.value, asked


@given(TEXTS, st.integers(0, 12), st.integers(1, 16))
@example(b"\n", 1, 1)
@example(b"a\n\n", 1, 2)
@example(b"a\nb", 1, 1)
def test_the_last_lines_are_those_of_the_whole_log(data: bytes, lines: int, block: int) -> None:
    start, _ = start_of(data, lines, block)

    assert data[start:] == b"".join(data.splitlines(keepends=True)[-lines:] if lines else [])


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (b"0123456789" * 10, 0, []),
        (b"", 3, []),
        (b"one\ntwo\nthree\n", 1, [(10, 4), (6, 4)]),
        (b"one\ntwo\n", 9, [(4, 4), (0, 4)]),
    ],
)
def test_no_more_is_read_than_is_needed(data: bytes, lines: int, expected: list[tuple[int, int]]) -> None:
    assert start_of(data, lines, 4)[1] == expected


def test_a_log_that_shrinks_meanwhile_has_a_start_all_the_same() -> None:
    conversation = tail_start(12, 2, 4)

    assert next(conversation) == (8, 4)
    assert conversation.send(b"") == (4, 4)
    assert conversation.send(b"a\n") == (0, 4)
    with pytest.raises(StopIteration) as end:
        conversation.send(b"b\nc\n")
    assert end.value.value == 4
