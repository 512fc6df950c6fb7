"""Whose connection a full port gives up."""

from __future__ import annotations

import pytest

from router.background.crowding import surplus


@pytest.mark.parametrize(
    ("addresses", "index"),
    [
        (["a"], 0),
        (["a", "a"], 0),
        (["a", "b"], 0),
        (["a", "b", "b"], 1),
        (["a", "b", "c", "b", "c", "c"], 2),
        (["b", "a", "a", "b"], 0),
    ],
)
def test_the_oldest_of_the_client_that_has_most(addresses: list[str], index: int) -> None:
    assert surplus(addresses) == index
