"""Jobs without Pods: which are reaped, and when a person is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.reconcile.strays import Reaping, Stray, reaping

NOW = 10_000.0
OLD = NOW - 900


@pytest.mark.parametrize(
    ("stray", "expected"),
    [
        (Stray("a", OLD, confirmed=True), Reaping(reap=("a",))),
        (Stray("a", OLD, confirmed=False), Reaping(confirm=("a",))),
        (Stray("a", OLD + 1, confirmed=True), Reaping()),
        (Stray("a", OLD + 1, confirmed=False), Reaping()),
        (Stray("a", NOW, confirmed=False, awaited=True), Reaping(confirm=("a",))),
        (Stray("a", NOW, confirmed=True, awaited=True), Reaping(reap=("a",))),
    ],
)
def test_one_stray(stray: Stray, expected: Reaping) -> None:
    assert reaping([stray], 1, NOW) == expected


@pytest.mark.parametrize(
    ("count", "ours", "stops"), [(20, 20, False), (21, 21, True), (21, 210, False), (22, 210, True)]
)
def test_beyond_twenty_and_a_tenth_a_person_decides(count: int, ours: int, stops: bool) -> None:
    found = reaping([Stray(str(number), OLD, confirmed=True) for number in range(count)], ours, NOW)

    assert (found.reap == (), bool(found.too_many)) == (stops, stops)


def test_what_the_fence_waits_for_is_reaped_all_the_same() -> None:
    many = [Stray(str(number), OLD, confirmed=True) for number in range(100)]

    found = reaping([*many, Stray("w", NOW, confirmed=True, awaited=True)], 100, NOW)

    assert (found.reap, bool(found.too_many)) == (("w",), True)


@given(
    strays=st.lists(
        st.builds(
            Stray,
            uid=st.text("abc", min_size=1),
            since=st.floats(0, NOW),
            confirmed=st.booleans(),
            awaited=st.booleans(),
        ),
        max_size=60,
    ),
    ours=st.integers(0, 1000),
)
def test_nothing_is_reaped_unconfirmed_or_beyond_the_limit(strays: list[Stray], ours: int) -> None:
    found = reaping(strays, ours, NOW)

    by_uid: dict[str, list[Stray]] = {}
    for one in strays:
        by_uid.setdefault(one.uid, []).append(one)
    assert all(any(one.confirmed for one in by_uid[uid]) for uid in found.reap)
    unasked = [uid for uid in found.reap if not any(one.awaited for one in by_uid[uid])]
    assert len(unasked) <= max(20, ours // 10)
