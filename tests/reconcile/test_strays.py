"""Jobs without Pods: which are reaped, and when a person is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.reconcile.strays import Reaping, Stray, reaping

NOW = 10_000.0
OLD = NOW - 900


def many(user: str, count: int, since: float = OLD) -> list[Stray]:
    """So many confirmed strays of a user."""
    return [Stray(f"{user}{number}", since, confirmed=True, user=user) for number in range(count)]


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
    assert reaping([stray], {"": 1}, NOW) == expected


@pytest.mark.parametrize(
    ("count", "ours", "stops"), [(20, 20, False), (21, 21, True), (21, 210, False), (22, 210, True)]
)
def test_beyond_twenty_and_a_tenth_a_person_decides(count: int, ours: int, stops: bool) -> None:
    found = reaping(many("ada", count), {"ada": ours}, NOW)

    assert (found.reap == (), bool(found.too_many)) == (stops, stops)


def test_what_the_fence_waits_for_is_reaped_all_the_same() -> None:
    found = reaping([*many("ada", 100), Stray("w", NOW, confirmed=True, user="ada", awaited=True)], {"ada": 100}, NOW)

    assert (found.reap, bool(found.too_many)) == (("w",), True)


def test_one_users_names_stop_that_users_alone() -> None:
    """Anybody may name jobs like ours."""
    found = reaping([*many("mallory", 21), *many("ada", 2), *many("ben", 1)], {"mallory": 21, "ada": 9, "ben": 1}, NOW)

    words = (
        "21 batch jobs of HPC user mallory have no Pod any more, and the agent deletes at most 20 of one user's by itself: "
        "check them, and delete them in the batch system"
    )
    assert found == Reaping(reap=("ada0", "ada1", "ben0"), too_many=words)


def test_what_one_user_names_does_not_fill_up_what_is_allowed_to_all() -> None:
    ours = {"mallory": 20, "ada": 15}

    found = reaping([*many("mallory", 20, OLD - 1), *many("ada", 15)], ours, NOW)
    left = reaping(many("ada", 15), ours, NOW)

    assert (found.too_many, left.too_many) == ("", "")
    assert found.reap == tuple(f"mallory{number}" for number in range(20))
    assert left.reap == tuple(f"ada{number}" for number in range(15))


def test_a_view_of_the_cluster_that_has_lost_all_pods_cancels_nothing() -> None:
    users = {f"user{number}": 3 for number in range(10)}

    found = reaping([one for user, count in users.items() for one in many(user, count)], users, NOW)

    words = (
        "30 batch jobs of this cluster, of 10 HPC users, have no Pod any more, and beside those of HPC user user9 the agent "
        "deletes at most 20 by itself: check them, and delete them in the batch system"
    )
    assert found == Reaping(too_many=words)


def test_a_limit_is_not_widened_by_a_users_own_names() -> None:
    """A thousand jobs that are named like ours are a tenth of themselves."""
    ours = {"mallory": 10_000, "ada": 30, "ben": 30}

    found = reaping([*many("mallory", 900), *many("ada", 30), *many("ben", 30)], ours, NOW)

    assert (found.reap, bool(found.too_many)) == ((), True)


USERS = st.sampled_from(["", "ada", "ben", "mallory"])


@given(
    strays=st.lists(
        st.builds(
            Stray,
            uid=st.text("abc", min_size=1),
            since=st.floats(0, NOW),
            confirmed=st.booleans(),
            user=USERS,
            awaited=st.booleans(),
        ),
        max_size=60,
    ),
    ours=st.dictionaries(USERS, st.integers(0, 1000)),
)
def test_nothing_is_reaped_unconfirmed_or_beyond_the_limit(strays: list[Stray], ours: dict[str, int]) -> None:
    found = reaping(strays, ours, NOW)

    by_uid: dict[str, list[Stray]] = {}
    for one in strays:
        by_uid.setdefault(one.uid, []).append(one)
    assert all(any(one.confirmed for one in by_uid[uid]) for uid in found.reap)
    unasked = [uid for uid in found.reap if not any(one.awaited for one in by_uid[uid])]
    assert len(unasked) <= max(20, sum(ours.values()) // 10)


@given(
    forged=st.integers(0, 60),
    others=st.dictionaries(st.sampled_from(["ada", "ben", "cy"]), st.integers(0, 6)),
    ours=st.dictionaries(st.sampled_from(["ada", "ben", "cy", "mallory"]), st.integers(0, 1000)),
)
def test_whatever_one_user_names_others_few_are_reaped_in_the_end(
    forged: int, others: dict[str, int], ours: dict[str, int]
) -> None:
    left = [*many("mallory", forged, OLD - 1), *(one for user, count in others.items() for one in many(user, count))]
    for _ in range(10):
        gone = set(reaping(left, ours, NOW).reap)
        left = [one for one in left if one.uid not in gone]

    assert {one.user for one in left} <= {"mallory"}
