"""Times, sizes and limits as batch systems write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.hpc import figures


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90), ("10:00", 600), ("00:99:00", 5940), ("48:00:00", 172800), ("1:2:3:4", 93784), ("1-00:00:00", 86400),
        ("1-12", 129600), ("2-00:30", 174600), ("UNLIMITED", None), ("infinite", None), ("", None), ("NONE", None),
    ],
)  # fmt: skip
def test_seconds(text: str, expected: int | None) -> None:
    assert figures.seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4gb", 4 << 30), ("204800kb", 200 << 20), ("17", 17), ("10b", 10), ("2mw", 16 << 20), ("3w", 24), ("1TB", 1 << 40), ("", None)],
)  # fmt: skip
def test_sizes(text: str, expected: int | None) -> None:
    assert figures.size(text) == expected


def test_counts() -> None:
    assert (figures.count("4"), figures.count("UNLIMITED"), figures.mebibytes("4000")) == (4, None, 4000 << 20)
    assert (figures.most([None, 1, 3]), figures.most([None]), figures.least([None, 2, 5])) == (3, None, 2)


@pytest.mark.parametrize("text", ["x", "1.5gb", "1:2:3:4:5", "-1", "1-", "1 "])
def test_what_is_no_figure(text: str) -> None:
    for read in (figures.seconds, figures.size, figures.count):
        with pytest.raises(ValueError, match="not a "):
            read(text)


@given(st.text())
def test_any_text_is_a_figure_or_a_value_error(text: str) -> None:
    for read in (figures.seconds, figures.size, figures.count, figures.mebibytes):
        try:
            found = read(text)
        except ValueError:
            continue
        assert found is None or found >= 0
