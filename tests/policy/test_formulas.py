from __future__ import annotations

import pytest

from router.policy.formulas import AnyOf, Every, Formula, Literal, any_of, depth, every, simplified, size, text_of

A, B, C = (Literal(name, f"!{name}") for name in "abc")

# what is joined, and the whole in CEL
JOINED: list[tuple[Formula, str]] = [
    (every(), "true"),
    (any_of(), "false"),
    (every(True, A, True), "a"),
    (any_of(False, A), "a"),
    (every(A, False), "false"),
    (any_of(A, True), "true"),
    (every(A, every(B, A)), "a && b"),
    (every(A, any_of(B, C)), "a && (b || c)"),
    (any_of(A, every(B, C)), "a || b && c"),
    # a literal beside its opposite, and what it decides of the other parts
    (every(A, ~A), "false"),
    (any_of(~A, A), "true"),
    (every(A, any_of(~A, B)), "a && b"),
    (any_of(~A, every(A, B)), "!a || b"),
    (any_of(A, every(B, any_of(A, C))), "a || b && c"),
    (any_of(every(B, any_of(A, C)), A), "b && c || a"),
    (every(any_of(A, every(~B, B)), any_of(~A, C)), "a && c"),
    # parts that change nothing
    (any_of(A, every(A, B)), "a"),
    (every(A, any_of(A, B)), "a"),
    (any_of(every(A, B), every(A, B, C)), "a && b"),
    (any_of(every(A, B), every(B, A)), "a && b || b && a"),
]


@pytest.mark.parametrize(("formula", "text"), JOINED)
def test_joined(formula: Formula, text: str) -> None:
    assert text_of(simplified(formula)) == text


def test_groups_have_at_least_two_parts() -> None:
    assert (every(A, B), any_of(A, B)) == (Every((A, B)), AnyOf((A, B)))
    assert (every(any_of(A, False)), any_of(every(A))) == (A, A)


def test_depth_counts_groups() -> None:
    assert [depth(one) for one in (True, A, every(A, any_of(B, every(A, C))))] == [0, 0, 3]


def test_size_counts_literals() -> None:
    assert [size(one) for one in (True, A, any_of(B, every(A, C)))] == [0, 1, 3]
