"""Who is attended to and who is left at rest, from values alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.reconcile.resting import LOOKOUTS, ROUND_SECONDS, Change, Seen, change, unreachable

NOW = 100_000.0
IDLE = 600.0


def awake(user: str, *, ago: float = 5000, needed: float | None = None, **fields: bool) -> Seen:
    """Who is attended to, for so many seconds; there was last something to do so many seconds ago."""
    last = None if needed is None else NOW - needed
    found = {"wanted": False, "reached": True, "visited": True} | fields
    return Seen(user, awake=True, since=NOW - ago, needed=last, **found)


def asleep(user: str, *, ago: float = 60, wanted: bool = False) -> Seen:
    return Seen(user, awake=False, wanted=wanted, since=NOW - ago)


LOOKOUT = awake("zoe", wanted=True, needed=0)

CASES = {
    "nobody": ([], Change()),
    "somebody for whom there is something to do": ([LOOKOUT, awake("ada", wanted=True, needed=0)], Change()),
    "the last who reaches the site": ([awake("ada", needed=9000)], Change()),
    "of two without Jobs, the one for longer": (
        [awake("ada", needed=700), awake("ben", needed=900)],
        Change(rest=("ben",)),
    ),
    "a Job that ended a moment ago": ([LOOKOUT, awake("ada", needed=IDLE - 1)], Change()),
    "a Job that ended long ago": ([LOOKOUT, awake("ada", needed=IDLE)], Change(rest=("ada",))),
    "never a Job, all looked at": ([LOOKOUT, awake("ada", ago=70)], Change(rest=("ada",))),
    "never a Job, not all looked at": ([LOOKOUT, awake("ada", ago=70, visited=False)], Change()),
    "never a Job, all looked at, away since": ([LOOKOUT, awake("ada", ago=70, reached=False)], Change()),
    "a user who cannot be reached, for a while": ([LOOKOUT, awake("ada", ago=IDLE - 1, reached=False)], Change()),
    "a user who cannot be reached, for long": (
        [LOOKOUT, awake("ada", ago=IDLE, reached=False, visited=False)],
        Change(rest=("ada",)),
    ),
    "nobody can be reached": ([awake("ada", reached=False), awake("ben", reached=False)], Change()),
    "nobody can be reached, and others were not tried": (
        [awake("ada", reached=False), asleep("ben", ago=20), asleep("carl", ago=30)],
        Change(rise=("carl",)),
    ),
    "everybody is at rest": ([asleep("ada"), asleep("ben", ago=70)], Change(rise=("ben",))),
    "a Pod of somebody at rest": ([LOOKOUT, asleep("ada", wanted=True), asleep("ben")], Change(rise=("ada",))),
    "Pods of everybody at rest": (
        [LOOKOUT, asleep("ben", wanted=True), asleep("ada", wanted=True)],
        Change(rise=("ada", "ben")),
    ),
    "at rest for an hour": ([LOOKOUT, asleep("ada", ago=ROUND_SECONDS)], Change(rise=("ada",))),
    "at rest for less": ([LOOKOUT, asleep("ada", ago=ROUND_SECONDS - 1)], Change()),
    "several at rest for an hour, one after the other": (
        [LOOKOUT, asleep("ada", ago=ROUND_SECONDS), asleep("ben", ago=ROUND_SECONDS + 5), asleep("c", wanted=True)],
        Change(rise=("ben", "c")),
    ),
}


@pytest.mark.parametrize(("users", "expected"), CASES.values(), ids=CASES)
def test_who_rises_and_who_rests(users: list[Seen], expected: Change) -> None:
    assert change(users, NOW, idle=IDLE) == expected


SECONDS = st.floats(0, 2 * ROUND_SECONDS)
USERS = st.lists(
    st.builds(
        lambda user, awake, wanted, ago, needed, reached, visited: Seen(
            user,
            awake=awake,
            wanted=wanted,
            since=NOW - ago,
            needed=NOW if awake and wanted else None if needed is None or not awake else NOW - min(ago, needed),
            reached=awake and reached,
            visited=awake and visited,
        ),
        st.text("abcdef", min_size=1, max_size=3),
        st.booleans(),
        st.booleans(),
        SECONDS,
        st.none() | SECONDS,
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: one.user,
)


@given(USERS)
def test_nobody_who_is_wanted_is_at_rest_and_somebody_always_sees_the_site(users: list[Seen]) -> None:
    by_name = {one.user: one for one in users}

    found = change(users, NOW, idle=IDLE)

    assert all(by_name[user].awake and not by_name[user].wanted for user in found.rest)
    assert {one.user for one in users if one.wanted and not one.awake} <= set(found.rise)
    assert not any(by_name[user].awake for user in found.rise)
    assert sum(not by_name[user].wanted for user in found.rise) <= 1, "one visitor after the other"
    reached = {one.user for one in users if one.reached}
    assert len(reached - set(found.rest)) >= min(len(reached), LOOKOUTS)
    if not reached:
        assert found.rest == ()
        assert found.rise or all(one.awake for one in users)
    for user in found.rest:
        one = by_name[user]
        last = one.since if one.needed is None else max(one.since, one.needed)
        assert NOW - last >= IDLE or (one.needed is None and one.visited and one.reached)


@given(USERS)
def test_what_was_changed_needs_no_further_change_at_once_but_for_the_next_visitor(users: list[Seen]) -> None:
    """Who has just risen is not left at rest before anything was looked at, and who was left at rest does not rise."""
    first = change(users, NOW, idle=IDLE)
    after = [
        asleep(one.user, ago=0) if one.user in first.rest
        else Seen(one.user, awake=True, wanted=one.wanted, since=NOW) if one.user in first.rise
        else one
        for one in users
    ]  # fmt: skip

    second = change(after, NOW, idle=IDLE)

    assert second.rest == ()
    assert not set(second.rise) & (set(first.rest) | set(first.rise))


@pytest.mark.parametrize(
    ("reasons", "at_rest", "expected"),
    [
        ([], 0, ""),
        ([], 3, ""),
        ([""], 3, ""),
        (["down"], 0, "down"),
        (["full disk"], 3, ""),
        (["down", "down too"], 3, "down"),
        (["down", ""], 0, ""),
    ],
)
def test_a_site_is_unreachable_when_nobody_reaches_it(reasons: list[str], at_rest: int, expected: str) -> None:
    assert unreachable(reasons, at_rest) == expected
